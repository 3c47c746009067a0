"""The simulator is no second implementation: what it decides, production decides, call by call."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from rosa_sim.fleet.record import CallRecord
from tests.parity import trace
from tests.parity.trace import KEPT_APART_S

ROBOTS = ("sort-0", "sort-1", "pack-0")


@pytest.fixture(scope="module")
def simulated() -> CallRecord:
    return trace.simulated()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> CallRecord:
    return trace.undisturbed(trace.live, tmp_path_factory)


@pytest.fixture(scope="module")
def as_slow(live: CallRecord) -> CallRecord:
    """Simulated for a machine as slow as this one."""
    return trace.as_slow_as(live, trace.simulated)


def by_robot(rows: list[tuple[object, ...]], robot: str) -> list[tuple[object, ...]]:
    """Without the times."""
    return [row[1:] for row in rows if row[1] == robot]


def test_the_trace_shows_what_it_is_for(simulated: CallRecord) -> None:
    endings = {ending for *_, ending in simulated.ends}
    assert endings == {"in_time", "missed", "cancelled"}
    assert simulated.late_results == [("sort-1", "monitor")], "an answer that came after its deadline"
    assert ("sort-1", "system1", 5, "missed") in by_robot([*simulated.ends], "sort-1"), "a lost request"
    words = "what the killed worker held waited for another one until its robot cancelled it; else: ok"
    assert simulated.replies["sort-1", 9] == "cancelled", words
    assert any(len(calls) == 2 for _, _, calls in simulated.batches)


def test_no_order_in_the_trace_hangs_on_a_few_milliseconds(simulated: CallRecord) -> None:
    """Else a busy machine would decide it, and the comparison below would say nothing."""
    for robot in {robot for _, robot, *_ in simulated.sends}:
        times = sorted(
            {
                round(row[0], 4)
                for rows in (simulated.sends, simulated.ends)
                for row in rows
                if row[1] == robot
            }
        )
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert all(gap > KEPT_APART_S or gap < 0.003 for gap in gaps), f"{robot}: {times}"


def test_robots_send_the_same_calls_in_the_same_order(as_slow: CallRecord, live: CallRecord) -> None:
    for robot in ROBOTS:
        assert by_robot([*live.sends], robot) == by_robot([*as_slow.sends], robot)


def test_every_call_ends_the_same_way(as_slow: CallRecord, live: CallRecord) -> None:
    """And in the same order, but for two calls of a robot that end at the same instant."""
    assert {row[1:] for row in live.ends} == {row[1:] for row in as_slow.ends}
    assert len(live.ends) == len(as_slow.ends)
    ended_s = {row[1:]: row[0] for row in live.ends}
    for one, other in itertools.permutations(as_slow.ends, 2):
        if one[1] == other[1] and other[0] - one[0] > KEPT_APART_S:
            assert ended_s[one[1:]] < ended_s[other[1:]], f"{one} before {other}"
    assert live.late_results == as_slow.late_results


def test_the_gateway_makes_the_same_batches(as_slow: CallRecord, live: CallRecord) -> None:
    for replica in trace.REPLICAS:
        expected = [calls for _, name, calls in as_slow.batches if name == replica]
        assert [calls for _, name, calls in live.batches if name == replica] == expected


def test_every_request_gets_the_same_final_answer(as_slow: CallRecord, live: CallRecord) -> None:
    assert live.replies == as_slow.replies


def test_and_all_of_it_at_the_same_times(as_slow: CallRecord, live: CallRecord) -> None:
    assert trace.close(as_slow, live) == []


def shifted(record: CallRecord, late: Callable[[str, float], float]) -> CallRecord:
    """The record with each robot's events late by what `late` says of the robot and the time."""
    found = trace.recorded()
    found.sends = [(row[0] + late(row[1], row[0]), *row[1:]) for row in record.sends]
    found.ends = [(row[0] + late(row[1], row[0]), *row[1:]) for row in record.ends]
    found.batches = [
        (at_s + max(late(robot, at_s) for robot, _ in of), name, of) for at_s, name, of in record.batches
    ]
    return found


def test_a_robot_that_the_machine_made_late_once_is_as_late_in_all_that_follows(
    simulated: CallRecord,
) -> None:
    def late(robot: str, at_s: float) -> float:
        return 0.12 if robot == "pack-0" and at_s >= 1.3 else 0.0

    assert trace.close(simulated, shifted(simulated, late)) == []


def every(record: CallRecord, by_s: float, what: str, who: str) -> CallRecord:
    """The record with everything of one kind late."""
    found = shifted(record, lambda robot, at_s: 0.0)
    if what == "given":
        found.batches = [(row[0] + by_s * (row[1] == who), *row[1:]) for row in found.batches]
    elif what == "ended":
        found.ends = [(row[0] + by_s * (row[2] == who), *row[1:]) for row in found.ends]
    else:
        rounds, sends = Counter[tuple[str, str]](), []
        for at_s, robot, component, request in found.sends:
            late_s = by_s * rounds[robot, component] if component == who else 0.0
            sends.append((at_s + late_s, robot, component, request))
            rounds[robot, component] += 1
        found.sends = sends
    return found


@pytest.mark.parametrize("by_s", [0.04, 0.14, -0.04, -0.14])
@pytest.mark.parametrize(
    ("what", "who"), [("given", "left"), ("ended", "monitor"), ("ended", "system1"), ("sent", "system1")]
)
def test_what_is_late_or_early_every_time_is_not_the_machine(
    simulated: CallRecord, what: str, who: str, by_s: float
) -> None:
    assert trace.close(simulated, every(simulated, by_s, what, who))


def test_one_event_that_is_far_too_late_or_early_is_seen(simulated: CallRecord) -> None:
    for by_s in (0.2, -0.06):
        found = shifted(simulated, lambda robot, at_s: 0.0)
        at_s, *rest = found.ends[3]
        found.ends[3] = (at_s + by_s, *rest)
        [wrong] = trace.close(simulated, found)
        assert wrong.startswith("('ended',")
