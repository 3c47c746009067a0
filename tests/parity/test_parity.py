"""The simulator is no second implementation: what it decides, production decides, call by call."""

from __future__ import annotations

import itertools

import pytest

from rosa_sim.fleet.record import CallRecord
from tests.parity import trace
from tests.parity.trace import KEPT_APART_S, TOLERANCE_S

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
    """Whichever of two comes first."""
    for expected, found in (
        (as_slow.sends, live.sends),
        (as_slow.ends, live.ends),
        (as_slow.batches, live.batches),
    ):
        pairs = zip(*(sorted(rows, key=lambda row: row[1:]) for rows in (expected, found)), strict=True)
        for one, other in pairs:
            assert other[0] == pytest.approx(one[0], abs=TOLERANCE_S), f"{one} against {other}"
