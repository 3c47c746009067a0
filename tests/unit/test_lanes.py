"""Which test runs beside which (`tests/lanes.py`): decided on processes that only note what they are sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.lanes import AHEAD, LANES, Lane, Lanes, lane_of, roles

ROOT = Path(__file__).parents[2]
ROBOTS = [f"tests/system/cell/test_cell.py::{name}" for name in "abc"]
ROBOTS_TOO = [f"tests/system/operator/test_two_robots.py::{name}" for name in "abc"]
SERVERS = [f"tests/system/schedule/test_schedule.py::{name}" for name in "abc"]
BESIDE = [f"tests/unit/contract/test_codec.py::{name}" for name in "abcd"]
BESIDE_TOO = [f"tests/unit/sim/test_expert.py::{name}" for name in "ab"]
ALONE = [f"tests/system/arm_safety/test_arm_safety.py::{name}" for name in "abc"]
ALONE_TOO = [f"tests/parity/test_parity.py::{name}" for name in "a"]
NO_NODES = [f"tests/system/cell/test_interrupt.py::{name}" for name in "abc"]
ALL = [*ALONE, *ALONE_TOO, *NO_NODES, *SERVERS, *ROBOTS, *ROBOTS_TOO, *BESIDE, *BESIDE_TOO]


class Process:
    """Runs a test when it knows the next one, or that there is none, as a process of xdist does."""

    def __init__(self, number: int = 0) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.sent: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        assert not self.shutting_down
        self.sent.extend(indices)

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def running(self) -> int | None:
        return self.sent[0] if len(self.sent) > (0 if self.shutting_down else 1) else None


def begun(processes: Sequence[Process], tests: Sequence[str] = ALL) -> Lanes:
    lanes = Lanes(len(processes))
    for process in reversed(processes):  # in whatever order they are ready
        lanes.add_node(process)
        lanes.add_node_collection(process, tests)
    lanes.schedule()
    return lanes


def run(lanes: Lanes, processes: Sequence[Process], slow: int = 0) -> list[list[tuple[str, list[str]]]]:
    """Per process: its tests, each with those that ran at the same time. Process `slow` takes three turns for one."""
    done: list[list[tuple[str, list[str]]]] = [[] for _ in processes]
    turn = 0
    while any(process.running is not None for process in processes):
        turn += 1
        running = [process.running for process in processes]
        for number, process in enumerate(processes):
            test = running[number]
            if test is None or (number == slow and turn % 3):
                continue
            others = [lanes.collection[one] for one in running if one is not None and one != test]
            process.sent.remove(test)
            done[number].append((lanes.collection[test], others))
            lanes.mark_test_complete(process, test)
    return done


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("slow", [0, 1])
def test_every_test_runs_once_and_a_file_in_its_order_in_one_process(count: int, slow: int) -> None:
    processes = [Process(number) for number in range(count)]
    lanes = begun(processes)
    done = [[test for test, _ in tests] for tests in run(lanes, processes, slow)]
    assert sorted(test for tests in done for test in tests) == sorted(ALL)
    for tests in done:
        files = [test.partition("::")[0] for test in tests]
        assert files == sorted(files, key=files.index), "a file is not left for another"
        for file in set(files):
            assert [test for test in tests if test.startswith(file)] == [
                test for test in ALL if test.startswith(file)
            ]
    assert all(process.shutting_down for process in processes)
    assert lanes.tests_finished
    assert not lanes.has_pending


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("slow", [0, 1, 2])
def test_files_keep_to_their_lanes_and_nothing_else_runs_beside_what_runs_alone(
    count: int, slow: int
) -> None:
    processes = [Process(number) for number in range(count)]
    done = run(begun(processes), processes, slow)
    for role, tests in zip(roles(count), done, strict=True):
        lanes = {lane_of(test) for test, _ in tests}
        if role is not Lane.ROBOTS:
            assert not lanes & {Lane.ROBOTS, Lane.NO_NODES}
        if role is Lane.BESIDE:
            assert lanes <= {Lane.BESIDE, Lane.SERVERS}
        ranks = [lane_of(test) is Lane.ALONE for test, _ in tests]
        assert ranks == sorted(ranks), "and it comes last"
        for test, others in tests:
            if lane_of(test) is Lane.ALONE:
                assert {lane_of(other) for other in others} <= {Lane.ALONE} and len(others) <= 1
            if lane_of(test) is Lane.SERVERS and role is Lane.BESIDE:
                assert Lane.ROBOTS not in {lane_of(other) for other in others}
            if lane_of(test) is Lane.NO_NODES:
                assert {lane_of(other) for other in others} <= {Lane.BESIDE}
            if lane_of(test) is Lane.ROBOTS and role is Lane.ROBOTS and count in (2, 3):
                assert Lane.ROBOTS not in {lane_of(other) for other in others}


def test_two_files_that_run_alone_run_side_by_side() -> None:
    processes = [Process(number) for number in range(3)]
    done = run(begun(processes), processes)
    together = {(test, *others) for tests in done for test, others in tests if test in ALONE_TOO}
    assert all(len(pair) == 2 and pair[1] in ALONE for pair in together)


def test_the_process_of_the_servers_computes_only_when_no_robot_is_left_to_begin() -> None:
    processes = [Process(number) for number in range(3)]
    more = [f"{BESIDE[0]}_{number}" for number in range(40)]
    apart = [f"tests/unit/contract/test_{name}.py::a" for name in "abcdefghij"]
    lanes = begun(processes, [*ALL, *more, *apart])
    robots_left = True
    helped = False
    while any(process.running is not None for process in processes):
        for process in processes:
            if (index := process.running) is None:
                continue
            if process is processes[1] and lane_of(lanes.collection[index]) is Lane.BESIDE:
                helped = True
                assert not robots_left
            process.sent.remove(index)
            lanes.mark_test_complete(process, index)
            files = [lanes.collection[one] for work in lanes._files.values() for one in work]
            robots_left = Lane.ROBOTS in {lane_of(test) for test in files}
    assert helped


def test_who_has_computed_everything_helps_with_the_servers_when_the_robots_are_done() -> None:
    processes = [Process(number) for number in range(3)]
    more = [
        f"tests/system/{name}/test_{name}.py::{test}"
        for name in ("run", "doctor", "keys", "managed", "recorder", "schedule")
        for test in "abcdef"
    ]
    done = run(begun(processes, [*ROBOTS, *more, *BESIDE]), processes)
    helped = [others for test, others in done[2] if lane_of(test) is Lane.SERVERS]
    assert helped
    assert not any(lane_of(other) is Lane.ROBOTS for others in helped for other in others)


def test_what_must_meet_no_node_does_not_wait_for_what_computes() -> None:
    processes = [Process(number) for number in range(3)]
    done = run(
        begun(processes, [*ALL, *(f"{BESIDE[0]}_{number}" for number in range(40))]), processes, slow=2
    )
    beside = [others for test, others in done[0] if lane_of(test) is Lane.NO_NODES]
    assert len(beside) == len(NO_NODES) and all(beside)


def test_two_cores_have_one_process_for_each_lane() -> None:
    assert roles(3) == [Lane.ROBOTS, Lane.SERVERS, Lane.BESIDE]
    assert roles(1) == [Lane.ROBOTS]
    assert Counter(roles(9)) == {Lane.ROBOTS: 2, Lane.SERVERS: 2, Lane.BESIDE: 5}


def test_a_process_is_never_sent_more_than_it_needs_so_that_a_run_can_be_stopped() -> None:
    processes = [Process(0), Process(1)]
    begun(processes)
    assert [len(process.sent) for process in processes] == [AHEAD, AHEAD]


def test_what_a_crashed_process_had_not_begun_goes_to_others() -> None:
    crashing, other = Process(0), Process(1)
    lanes = begun([crashing, other])
    assert crashing.running is not None
    crashed_in = ALL[crashing.running]
    assert lanes.remove_node(crashing) == crashed_in
    fresh = Process(2)
    lanes.add_node(fresh)
    lanes.add_node_collection(fresh, ALL)
    lanes.schedule()
    done = [test for tests in run(lanes, [other, fresh]) for test, _ in tests]
    assert sorted([*done, crashed_in]) == sorted(ALL)


def test_a_run_that_is_stopped_sends_nothing_more() -> None:
    processes = [Process(0), Process(1)]
    lanes = begun(processes)
    for process in processes:
        process.shutdown()
    assert [len(tests) for tests in run(lanes, processes)] == [AHEAD, AHEAD]


def test_processes_that_see_different_tests_are_an_error() -> None:
    lanes = Lanes(2)
    for process, tests in ((Process(0), ALL), (Process(1), ALL[1:])):
        lanes.add_node(process)
        lanes.add_node_collection(process, tests)
    with pytest.raises(RuntimeError, match="different tests, such as"):
        lanes.schedule()


def test_no_tests_end_at_once() -> None:
    processes = [Process(0), Process(1)]
    begun(processes, [])
    assert all(process.shutting_down for process in processes)


def test_what_is_new_may_have_a_robot() -> None:
    assert lane_of("tests/system/new/test_new.py::test") is Lane.ROBOTS


def test_every_lane_names_files_that_exist() -> None:
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    for prefix in LANES:
        assert any(file.startswith(prefix) for file in files), prefix
