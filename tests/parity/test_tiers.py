"""What goes to the cloud, the simulator and the live server decide alike, over a link of 100 ms."""

from __future__ import annotations

import pytest

from rosa_sim.fleet.record import CallRecord
from tests.parity import trace


@pytest.fixture(scope="module")
def simulated() -> CallRecord:
    return trace.simulated_tiers()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> CallRecord:
    return trace.undisturbed(trace.live_tiers, tmp_path_factory)


@pytest.fixture(scope="module")
def as_slow(live: CallRecord) -> CallRecord:
    """Simulated for a machine as slow as this one."""
    return trace.as_slow_as(live, trace.simulated_tiers)


def runs(record: CallRecord) -> dict[str, list[tuple[str, int]]]:
    """Server -> the calls that it was given, in order."""
    return {
        server: [call for _, name, calls in record.batches if name == server for call in calls]
        for server in ("edge", "cloud")
    }


def test_the_simulated_cloud_takes_what_would_wait_too_long(simulated: CallRecord) -> None:
    assert [robot for robot, _ in runs(simulated)["edge"][:2]] == ["sort-0", "pack-0"]
    assert [robot for robot, _ in runs(simulated)["cloud"]] == ["sort-1", "sort-2", "sort-2"]
    took = {(robot, number): at_s for at_s, robot, _, number, _ in simulated.ends}
    sent = {(robot, number): at_s for at_s, robot, _, number in simulated.sends}
    first = runs(simulated)["cloud"][0]
    assert took[first] - sent[first] == pytest.approx(2 * 0.1 + 0.06 + 2 * 0.0005, abs=1e-6)
    assert {ending for *_, ending in simulated.ends} == {"in_time"}


def test_the_live_server_sends_the_same_calls_away(as_slow: CallRecord, live: CallRecord) -> None:
    assert runs(live) == runs(as_slow)
    assert live.replies == as_slow.replies


def test_and_their_answers_come_at_the_same_times(as_slow: CallRecord, live: CallRecord) -> None:
    assert trace.close(as_slow, live) == []
