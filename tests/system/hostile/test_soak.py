"""Twenty seconds of a fleet that comes, leaves and crashes; `make soak` runs it for hours."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_sim.hostile import soak as module
from rosa_sim.hostile.soak import GROUPS, ROBOTS, SoakSample, flatness, soak


@pytest.mark.slow
def test_robots_that_come_and_crash_are_served_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STAYS_S", 3.0)
    monkeypatch.setattr(module, "KILL_WORKER_EVERY_S", 10.0)
    result = soak(tmp_path, 20.0, seed=3)
    assert not result.server_ended
    assert result.tracebacks == 0
    assert result.crashed > 0 and result.left > 0 and result.joined > GROUPS and result.workers_killed > 0
    calls, missed = sum(one.calls for one in result.samples), sum(one.missed for one in result.samples)
    assert calls > 100
    assert missed < 0.2 * calls, "a killed worker costs a second"
    assert max(one.descriptors for one in result.samples) < 60 + 2 * GROUPS * ROBOTS


def test_flatness_compares_the_second_quarter_with_the_last() -> None:
    samples = [SoakSample(at, 10 + at // 25, 1.0, 1, 1, 1, 0, None, 1.0) for at in range(100)]
    assert flatness(samples, "descriptors") == (11, 13)
    assert flatness(samples, "p50_ms") == (float("inf"), float("inf"))
