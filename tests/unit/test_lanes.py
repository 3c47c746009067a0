"""Which test runs beside which (`tests/lanes.py`): decided on processes that only note what they are sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from tests.lanes import LANES, TAKES, Lane, Lanes, Presence, lane_of, roles

ROOT = Path(__file__).parents[2]
ROBOTS = [f"tests/system/cell/test_cell.py::{name}" for name in "abc"]
ROBOTS_TOO = [f"tests/system/operator/test_two_robots.py::{name}" for name in "abc"]
SERVERS = [f"tests/system/schedule/test_schedule.py::{name}" for name in "abc"]
SERVERS_TOO = [f"tests/system/run/test_run.py::{name}" for name in "abc"]
BESIDE = [f"tests/unit/contract/test_codec.py::{name}" for name in "abcd"]
BESIDE_TOO = [f"tests/unit/sim/test_expert.py::{name}" for name in "ab"]
ALONE = [f"tests/system/arm_safety/test_arm_safety.py::{name}" for name in "abc"]
ALONE_TOO = [f"tests/parity/test_parity.py::{name}" for name in "a"]
ALL = [*ALONE, *ALONE_TOO, *SERVERS, *ROBOTS, *ROBOTS_TOO, *SERVERS_TOO, *BESIDE, *BESIDE_TOO]


class Process:
    """Runs a test when it knows the next one, or that there is none, as a process of xdist does."""

    def __init__(self, number: int = 0) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.sent: list[int] = []
        self.done: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        assert not self.shutting_down
        self.sent.extend(indices)

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def running(self) -> int | None:
        return self.sent[0] if len(self.sent) > (0 if self.shutting_down else 1) else None


def made(processes: int) -> Lanes:
    option = SimpleNamespace(loadscopereorder=False)
    return Lanes(SimpleNamespace(getvalue=lambda _: ["popen"] * processes, option=option))


def begun(processes: Sequence[Process], tests: Sequence[str] = ALL) -> Lanes:
    lanes = made(len(processes))
    for process in reversed(processes):  # in whatever order they are ready
        lanes.add_node(process)
        lanes.add_node_collection(process, tests)
    lanes.schedule()
    return lanes


def run(lanes: Lanes, processes: Sequence[Process], slow: int = 0, turns: int = 1000) -> None:
    """Process `slow` takes three turns for one."""
    turn = 0
    while any(process.running is not None for process in processes) and turn < turns:
        turn += 1
        for number, process in enumerate(processes):
            if process.running is not None and (number != slow or turn % 3 == 0):
                process.done.append(process.sent.pop(0))
                lanes.mark_test_complete(process, process.done[-1])
        if lanes.tests_finished:  # as xdist does then
            for process in processes:
                process.shutdown()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("slow", [0, 1, 2])
def test_every_test_runs_once_in_its_lane_and_a_file_in_its_order_in_one_process(
    count: int, slow: int
) -> None:
    processes = [Process(number) for number in range(count)]
    lanes = begun(processes)
    run(lanes, processes, slow)
    assert sorted(index for process in processes for index in process.done) == list(range(len(ALL)))
    alone = []
    for role, process in zip(roles(count), processes, strict=True):
        tests = [ALL[index] for index in process.done]
        files = [test.partition("::")[0] for test in tests]
        assert files == sorted(files, key=files.index), "a file is not left for another"
        for file in set(files):
            whole = [test for test in ALL if test.startswith(file)]
            assert [test for test in tests if test.startswith(file)] == whole
        ran = [lane_of(test) for test in tests]
        assert set(ran) <= set(TAKES[role])
        assert ran == sorted(ran, key=lambda lane: lane is Lane.ALONE), "and what runs alone comes last"
        alone.append(Lane.ALONE in ran)
        assert process.shutting_down
    assert sum(alone) == 1
    assert lanes.tests_finished
    assert not lanes.has_pending


def test_one_process_in_four_is_for_robots_and_one_for_servers() -> None:
    assert roles(4) == [Lane.ROBOTS, Lane.SERVERS, Lane.BESIDE, Lane.BESIDE]
    assert roles(1) == [Lane.ROBOTS]
    assert Counter(roles(9)) == {Lane.ROBOTS: 2, Lane.SERVERS: 2, Lane.BESIDE: 5}


@pytest.mark.parametrize("count", [1, 3, 4])
@pytest.mark.parametrize("turns", range(26))
@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_a_crashed_process_had_not_ended_goes_to_others_but_for_what_it_crashed_in(
    which: int, turns: int, count: int
) -> None:
    processes = [Process(number) for number in range(count)]
    lanes = begun(processes)
    run(lanes, processes, turns=turns)
    crashing = processes[which % count]
    if (running := crashing.running) is None:
        return
    assert lanes.remove_node(crashing) == ALL[running]
    processes.remove(crashing)
    run(lanes, processes, turns=turns)
    fresh = Process(count)
    lanes.add_node(fresh)
    lanes.add_node_collection(fresh, ALL)
    lanes.schedule()
    run(lanes, [*processes, fresh])
    done = [index for process in (*processes, crashing, fresh) for index in process.done]
    assert sorted([*done, running]) == list(range(len(ALL)))
    assert lanes.tests_finished


def test_processes_that_see_different_tests_are_an_error() -> None:
    lanes = made(2)
    for process, tests in ((Process(0), ALL), (Process(1), ALL[1:])):
        lanes.add_node(process)
        lanes.add_node_collection(process, tests)
    with pytest.raises(AssertionError, match="different tests"):
        lanes.schedule()


def test_what_runs_alone_waits_for_each_process_that_runs_something_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "run").touch()
    one, other, at_work = (Presence(tmp_path / "run") for _ in range(3))
    waiting = [Thread(target=present.wait_for_others) for present in (one, other)]
    for thread in waiting:
        thread.start()
    waiting[0].join(0.5)
    assert all(thread.is_alive() for thread in waiting)
    at_work.end()
    for thread in waiting:
        thread.join(30.0)
    assert not any(thread.is_alive() for thread in waiting), "and not for each other"


def test_what_is_new_may_have_a_robot() -> None:
    assert lane_of("tests/system/new/test_new.py::test") is Lane.ROBOTS


def test_every_lane_names_files_that_exist() -> None:
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    for prefix in LANES:
        assert any(file.startswith(prefix) for file in files), prefix
