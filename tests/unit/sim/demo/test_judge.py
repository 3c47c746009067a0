"""The judge of a sorting episode reads the rule from System 2's prompt and looks at the state of the cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_contract.config.factory import load_factory
from rosa_contract.errors import ConfigError
from rosa_sim.cell.layout.hardware import SORT_PARTS
from rosa_sim.cell.world import World
from rosa_sim.demo.judge import RuleJudge, judge_of

CONFIGS = Path(__file__).parents[4] / "configs"


def test_it_judges_by_the_rule_that_the_shipped_file_says() -> None:
    judge = judge_of("sort_parts", load_factory(CONFIGS / "sort_parts.yaml").tasks["sort_parts"])
    assert judge is not None
    world = World(3, SORT_PARTS)
    colours = [int(colour) for colour in world.variation.block_colour]
    goes_left = {0, 3, 5}  # red, blue and white
    assert judge(3, world.qpos) == "ongoing"
    for wrong in (False, True):
        qpos = world.qpos
        count = [0, 0]
        for name, colour in zip(world.layout.block_names, colours, strict=True):
            side = int((colour in goes_left) == wrong)
            x, y = world.bin_positions[side]
            at = world.model.joint(name).qposadr[0]
            qpos[at : at + 3] = x + 0.062 * (count[side] - 1), y, 0.022
            count[side] += 1
        assert judge(3, qpos) == ("failed" if wrong else "done")


def test_a_block_in_the_wrong_bin_is_no_failure_while_others_can_be_moved() -> None:
    world = World(3, SORT_PARTS)
    qpos = world.qpos
    at = world.model.joint("block0").qposadr[0]
    qpos[at : at + 3] = *world.bin_positions[0], 0.022
    assert RuleJudge(0)(3, qpos) == "ongoing"


def test_pick_and_place_needs_no_judge_and_words_without_a_rule_cannot_be_judged() -> None:
    task = load_factory(CONFIGS / "pick_place.yaml").tasks["pick_and_place"]
    assert judge_of("pick_place", task) is None
    with pytest.raises(ConfigError, match="no rule of sorting"):
        judge_of("sort_parts", task)
