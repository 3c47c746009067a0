"""The closed loop's aims hold only where ROSA finishes as many tasks, and where drawn and physical fleets agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.fleet.closing import agreement, judge, trials


def rows(**per_hour: float) -> list[dict[str, Any]]:
    systems = {"rosa": 100.0, "rosa_published": 50.0, "equal_partition": 60.0, **per_hour}
    return [
        {"part": "robots", "what": "", "system": system, "robots": 8, "per_hour": value}
        for system, value in systems.items()
    ]


def test_a_gain_is_over_the_best_of_the_baselines() -> None:
    best, published = judge.aims_of(rows(gpu_per_model=80.0), [])
    assert (best["value"], best["holds"]) == ("least, 8 robots: 1.25x, most, 8 robots: 1.25x", True)
    assert published["value"].startswith("least, 8 robots: 2.00x")


def test_who_finishes_fewer_tasks_misses_the_aim() -> None:
    best, _ = judge.aims_of(rows(equal_partition=110.0), [])
    assert not best["holds"] and "0.91x" in best["value"]


def compared(agrees: bool) -> dict[str, Any]:
    keys = ("seconds_per_piece", "per_robot_hour")
    return {
        f"{key}_{what}": agrees if what == "agrees" else "+9 %"
        for key in keys
        for what in ("agrees", "difference")
    }


def test_a_fleet_that_does_not_agree_is_told() -> None:
    aims = judge.aims_of([], [compared(True), compared(False)])
    assert [aim["holds"] for aim in aims] == [False, False]
    assert aims[0]["value"] == "1 of 2: +9 %, +9 %"
    assert all(aim["holds"] for aim in judge.aims_of([], [compared(True)]))


def test_means_come_with_their_standard_error() -> None:
    mean, error = agreement._mean([1.0, 2.0, 3.0, 4.0])
    assert (mean, error) == (2.5, pytest.approx((5 / 3) ** 0.5 / 2))


def test_what_was_measured_is_not_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trials, "CACHE", tmp_path)
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return 42

    assert [trials.kept("a", make), trials.kept("a", make)] == [42, 42]
    assert made == [1]
