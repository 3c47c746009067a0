"""A call that its robot cancels while it runs: the simulator and production give its place to the same one."""

from __future__ import annotations

import pytest

from rosa_sim.fleet.record import CallRecord
from tests.parity import trace
from tests.parity.trace import TOLERANCE_S


@pytest.fixture(scope="module")
def simulated() -> CallRecord:
    return trace.simulated_cancelling()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> CallRecord:
    return trace.undisturbed(trace.live_cancelling, tmp_path_factory)


def of_policy(record: CallRecord) -> list[tuple[tuple[str, int], ...]]:
    return [calls for _, replica, calls in record.batches if replica == "policy"]


def test_the_trace_shows_what_it_is_for(simulated: CallRecord) -> None:
    [(told_s, worker)] = simulated.cancelled
    assert worker == "policy" and told_s == pytest.approx(0.203, abs=0.002)
    assert of_policy(simulated)[:3] == [(("sort-0", 1),), (("pack-0", 1),), (("pack-1", 1),)]
    began_s = [at_s for at_s, replica, _ in simulated.batches if replica == "policy"]
    assert began_s[2] == pytest.approx(told_s, abs=1e-6), "its place is the next one's at once"
    assert simulated.replies["sort-0", 1] == "cancelled"
    assert simulated.replies["pack-0", 1] == simulated.replies["pack-1", 1] == "ok"


def test_production_decides_the_same_at_the_same_times(simulated: CallRecord, live: CallRecord) -> None:
    assert of_policy(live) == of_policy(simulated)
    assert live.replies == simulated.replies
    for robot in ("sort-0", "pack-0", "pack-1"):
        expected = [row[1:] for row in simulated.ends if row[1] == robot]
        assert [row[1:] for row in live.ends if row[1] == robot] == expected
    for expected, found in ((simulated.cancelled, live.cancelled), (simulated.batches, live.batches)):
        assert [row[1:] for row in found] == [row[1:] for row in expected]
        for one, other in zip(expected, found, strict=True):
            assert other[0] == pytest.approx(one[0], abs=TOLERANCE_S), f"{one} against {other}"
