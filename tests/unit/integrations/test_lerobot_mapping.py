"""LeRobot's observations and actions in ROSA's terms, without LeRobot."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

FILE = Path(__file__).parents[3] / "integrations/lerobot/lerobot_policy_rosa/mapping.py"


def loaded() -> ModuleType:
    """The module alone: its package needs LeRobot."""
    spec = importlib.util.spec_from_file_location("lerobot_policy_rosa_mapping", FILE)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NamesAndUnits: Any = loaded().NamesAndUnits


def batch(robots: int = 2, **changes: Any) -> dict[str, Any]:
    state = np.tile(np.linspace(0, 70, 8, dtype=np.float32), (robots, 1))
    state[:, 0] += np.arange(robots)
    picture = np.zeros((robots, 3, 4, 6), np.float32)
    picture[:, 0] = 128 / 255
    told = {"observation.images.top": picture, "observation.state": state, "task": ["pick"] * robots}
    return {name: value for name, value in {**told, **changes}.items() if value is not None}


def test_each_robot_of_a_batch_gets_its_own_observation() -> None:
    mapping = NamesAndUnits({"top": "front"}, {"joint_position": 7, "gripper_width": 1}, "deg")
    first, second = mapping.observations(batch())
    assert set(first) == {"front", "joint_position", "gripper_width"}
    assert first["front"].shape == (4, 6, 3) and first["front"].dtype == np.uint8
    assert first["front"][0, 0].tolist() == [128, 0, 0]
    assert second["joint_position"][:2] == pytest.approx(np.deg2rad([1, 10]))
    assert first["gripper_width"].tolist() == [70.0]  # its unit is the adapter's business
    assert mapping.prompts(batch(), 2) == {0: "pick", 1: "pick"}


def test_without_names_everything_is_sent_under_lerobots_own() -> None:
    told = batch(1, **{"observation.image": np.zeros((1, 3, 4, 6), np.uint8), "next.reward": 1.0})
    (seen,) = NamesAndUnits().observations(told)
    assert set(seen) == {"top", "image", "joint_position"} and len(seen["joint_position"]) == 8


def test_actions_are_in_lerobots_unit_and_the_gripper_as_it_is() -> None:
    mapping = NamesAndUnits({}, {"joint_position": 7, "gripper_width": 1}, "deg")
    rows = np.full((2, 5, 8), np.pi, np.float32)
    assert mapping.actions(rows)[0, 0].tolist() == pytest.approx([180.0] * 7 + [np.pi])
    assert NamesAndUnits(joint_unit="deg").actions(rows[0])[0].tolist() == pytest.approx([180.0] * 8)


def test_the_rest_of_a_chunk_travels_with_its_delay_and_without_what_fills_it_up() -> None:
    mapping = NamesAndUnits({}, {"joint_position": 7, "gripper_width": 1}, "deg")
    left = np.zeros((10, 8), np.float32)
    left[:6] = 90.0
    overlap = mapping.overlap(left, 3, 0.05)
    assert overlap.actions.shape == (6, 8) and (overlap.frozen, overlap.step_s) == (3, 0.05)
    assert overlap.actions[0] == pytest.approx([np.pi / 2] * 7 + [90.0])
    assert mapping.overlap(left, None, 0.05).frozen == 1  # the step that plays now
    assert mapping.overlap(left, 99, 0.05).frozen == 6
    assert mapping.overlap(None, 3, 0.05) is None
    assert mapping.overlap(np.zeros((10, 8)), 3, 0.05) is None
    assert mapping.overlap(np.ones((10, 1)), 3, 0.05) is None  # the wire has no overlap of one column
    with pytest.raises(ValueError, match="step_s"):
        mapping.overlap(left, 3, 0.0)


@pytest.mark.parametrize(
    ("options", "changes", "words"),
    [
        (
            {"images": {"wrist": "wrist"}},
            {},
            "observation.images.wrist not in the batch, which has observation.images.top",
        ),
        ({"state": {"joint_position": 6}}, {}, "joint_position: 6 does not add up to the 8 values"),
        (
            {"state": {"joint_position": 6}},
            {"observation.state": None},
            "observation.state is not in the batch",
        ),
        ({}, {"observation.state": np.zeros((2, 3, 8))}, "histories are not supported"),
        ({}, {"observation.images.top": np.zeros((2, 4, 6, 3))}, "expected .robots, 3, height, width"),
        ({}, {"observation.state": np.zeros((3, 8))}, "different batch sizes"),
        ({}, {"observation.state": None, "observation.images.top": None}, "neither images nor"),
    ],
)
def test_what_does_not_fit_is_named(options: dict[str, Any], changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        NamesAndUnits(**options).observations(batch(**changes))


def test_prompts_and_units_that_cannot_be_meant_are_refused() -> None:
    assert NamesAndUnits(prompt="sort").prompts(batch(), 2) == {0: "sort", 1: "sort"}
    assert NamesAndUnits().prompts({}, 1) == {0: ""}
    with pytest.raises(ValueError, match="a text, or 2 of them"):
        NamesAndUnits().prompts(batch(task=["pick"]), 2)
    with pytest.raises(ValueError, match="joint_unit: expected one of rad, deg"):
        NamesAndUnits(joint_unit="degrees")
