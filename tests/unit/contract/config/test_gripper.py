"""A robot file says which gripper there is, or that there is none, and with it what the columns of an action are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_contract.config.arms import arm_settings
from rosa_contract.config.robot import WITHOUT_GRIPPER, RobotSpec, hello_of, load_robot
from rosa_contract.errors import ConfigError

ROBOTS = Path(__file__).parents[4] / "configs" / "robots"


def load(tmp_path: Path, **changes: Any) -> RobotSpec:
    document = {**yaml.safe_load((ROBOTS / "panda.yaml").read_text()), **changes}
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_robot(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"gripper": {"kind": "none"}},
        {"gripper": {"kind": "none", "min_m": 0.01, "max_m": 0.1}},
        {"arm_driver": "ros2_control", "arm": {"gripper": {"kind": "none"}}},
        {"arm_driver": "ros2_control", "arm": {}, "gripper": {"kind": "none"}},
        {"arm_driver": "franka", "arm": {"address": "fr3", "gripper": {"kind": "none"}}},
        {"arm_driver": "franka", "arm": {"address": "fr3"}, "gripper": {"kind": "none"}},
    ],
)
def test_no_gripper_may_be_said_of_the_robot_or_of_its_driver(tmp_path: Path, changes: Any) -> None:
    spec = load(tmp_path, **changes)
    assert spec.gripper == WITHOUT_GRIPPER
    assert not spec.gripper.exists
    assert spec.action_names == spec.joints
    assert spec.finger_joints == ()
    assert hello_of("robot", "pick", spec).state == {"joint_position": 7}
    if spec.arm_driver != "mujoco":
        assert arm_settings("robot.yaml", spec.arm_driver, spec.arm).gripper.kind == "none"


def test_a_gripper_is_the_last_column_of_an_action(tmp_path: Path) -> None:
    spec = load(tmp_path)
    assert spec.gripper.exists
    assert spec.action_names == (*spec.joints, "gripper")
    assert spec.finger_joints == ("panda_finger_joint1", "panda_finger_joint2")
    assert hello_of("robot", "pick", spec).state == {"joint_position": 7, "gripper_width": 1}


@pytest.mark.parametrize(
    ("gripper", "cause", "says"),
    [
        (
            {"open_position": 0.0},
            "missing",
            "arm.gripper.open_position: expected it together with closed_position",
        ),
        (
            {"closed_position": 0.8},
            "missing",
            "arm.gripper.open_position: expected it together with closed_position",
        ),
        (
            {"open_position": 0.8, "closed_position": 0.8},
            "conflict",
            "arm.gripper.open_position: must differ from closed_position, got 0.8 for both",
        ),
        (
            {"joint_open_position": 0.1},
            "missing",
            "arm.gripper.joint_open_position: expected it together with joint_closed_position",
        ),
        (
            {"kind": "franka", "open_position": 0.04, "closed_position": 0.0},
            "conflict",
            "arm.gripper.open_position: expected none with kind franka, which takes widths",
        ),
        ({"kind": "paralel_gripper_command"}, "unknown_name", "did you mean 'parallel_gripper_command'?"),
    ],
)
def test_positions_that_mean_nothing_are_named(tmp_path: Path, gripper: Any, cause: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, arm_driver="ros2_control", arm={"gripper": gripper})
    assert [problem.cause for problem in caught.value.problems] == [cause]
    assert says in str(caught.value)
