"""The tables by which the monitor is judged, and what is counted of them."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_sim.cell.layout.hardware import SORT_PARTS
from rosa_sim.cell.world import World
from rosa_sim.training.data.collect import draw_rule
from rosa_sim.training.judge.verdicts import ALONE, STEPS, TABLES, Told, lay, rows


@pytest.mark.parametrize("table", TABLES)
def test_a_table_stands_as_its_name_says(table: str) -> None:
    world = World(7, SORT_PARTS)
    for seed in range(7, 12):
        rng = np.random.default_rng(seed)
        world.reset(seed)
        rule = draw_rule(rng, world)
        lay(world, rng, rule, seed % 3, table)
        assert world.by_rule(rule) == TABLES[table]


def test_a_verdict_is_right_or_wrong_by_the_table_and_the_way_of_asking() -> None:
    doubtful, done, failed = (np.array(one) for one in ([0.0, 0.45, 0.55], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]))
    told: list[Told] = [
        ("sorted", ALONE, [doubtful]),
        ("sorted", ALONE, [done]),
        ("sorted", STEPS, [doubtful, done, done]),
        ("one block lost", STEPS, [doubtful, done, failed]),
        ("one block lost", STEPS, [doubtful, done, done]),
    ]
    found = {row["what"]: row for row in rows(told, 0.6)}
    assert {what: (row["good"], row["of"]) for what, row in found.items()} == {
        f"sorted, {ALONE}": (1, 2),
        f"sorted, {STEPS}": (1, 1),
        f"one block lost, {STEPS}": (1, 2),
    }
    assert found[f"sorted, {ALONE}"]["verdicts"] == {"ongoing": 1, "done": 1}
    assert found[f"one block lost, {STEPS}"]["verdicts"] == {"done": 1, "failed": 1}
