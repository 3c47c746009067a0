"""Success in LeRobot's loop and through ROSA is compared by the interval of the first."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.robot import lerobot_act


def row(way: str, done: int, count: int = 20) -> dict[str, Any]:
    trials = [
        {"seed": seed, "outcome": "done" if seed < done else "ongoing", "rounds": 9} for seed in range(count)
    ]
    return lerobot_act.row_of(way, trials)


def test_a_row_tells_success_and_its_interval() -> None:
    told = row(lerobot_act.NODES, 10)
    assert (told["done"], told["success"], told["rounds_p50"]) == (10, 0.5, 9)
    assert told["success_95"] == [pytest.approx(0.299, abs=0.001), pytest.approx(0.701, abs=0.001)]


@pytest.mark.parametrize(("nodes", "holds"), [(10, True), (7, True), (0, False), (20, False)])
def test_success_through_the_nodes_has_to_be_within_the_interval_of_lerobots_loop(
    nodes: int, holds: bool
) -> None:
    aims = lerobot_act.aims_of([row(lerobot_act.LEROBOT, 10), row(lerobot_act.NODES, nodes)])
    assert [aim["holds"] for aim in aims] == [nodes > 0, holds]


def test_nothing_is_aimed_at_before_both_are_measured() -> None:
    assert lerobot_act.aims_of([row(lerobot_act.NODES, 10)]) == []
