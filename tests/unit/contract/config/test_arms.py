"""The `arm:` mapping of a robot file belongs to its driver, and a mistake in it is named with its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_contract.config.arms import Ros2ControlSettings, arm_settings
from rosa_contract.config.robot import load_robot
from rosa_contract.errors import ConfigError

PANDA = Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml"


def load(tmp_path: Path, driver: str, arm: Any) -> Any:
    document = {**yaml.safe_load(PANDA.read_text()), "arm_driver": driver, "arm": arm}
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump(document))
    spec = load_robot(path)
    return arm_settings(str(path), spec.arm_driver, spec.arm)


def test_settings_have_defaults_and_are_read_by_name(tmp_path: Path) -> None:
    settings = load(tmp_path, "ros2_control", {"joint_prefix": "left_", "gripper": {"kind": "franka"}})
    assert settings.joint_prefix == "left_"
    assert settings.gripper.kind == "franka"
    assert load(tmp_path, "ros2_control", {}) == Ros2ControlSettings()
    for told in ({"namespace": ""}, {"namespace": "/left/"}, {"joint_states": "/left/joint_states"}):
        assert load(tmp_path, "ros2_control", told) == Ros2ControlSettings(**told)


@pytest.mark.parametrize(
    ("driver", "arm", "problem"),
    [
        ("ros2_control", {"controler": "x"}, "arm.controler: unknown key (did you mean 'controller'?)"),
        (
            "ros2_control",
            {"grippers": {"left": {}}},
            "arm.grippers: is only for a robot with several `arms`; expected `arm.gripper`",
        ),
        ("ros2_control", {"controller": ""}, "arm.controller: expected a valid ROS name"),
        ("ros2_control", {"controller": "left-arm"}, "arm.controller: expected a valid ROS name"),
        ("ros2_control", {"namespace": "left arm"}, "arm.namespace: expected a valid ROS name"),
        (
            "ros2_control",
            {"gripper": {"action": "1st/grip"}},
            "arm.gripper.action: expected a valid ROS name",
        ),
        ("ros2_control", {"lookahead_s": "1"}, "arm.lookahead_s: expected a number"),
        ("ros2_control", {"lookahead_s": 0}, "arm.lookahead_s: must be > 0"),
        (
            "ros2_control",
            {"command": "position"},
            "arm.command: must be one of joint_trajectory, forward_position",
        ),
        ("ros2_control", {"gripper": {"kind": "hand"}}, "arm.gripper.kind: must be one of"),
        ("ros2_control", {"gripper": {"sped": 1}}, "arm.gripper.sped: unknown key"),
        ("ros2_control", ["x"], "arm: expected a mapping"),
        ("mujoco", {"namespace": "/"}, "arm: arm driver mujoco takes no settings, got namespace"),
        ("ros2_contol", {"namespace": "/"}, "did you mean 'ros2_control'?"),
    ],
)
def test_a_mistake_is_one_line_with_its_path(tmp_path: Path, driver: str, arm: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, driver, arm)
    assert problem in str(caught.value)
    assert len(caught.value.problems) == 1


def test_a_driver_of_your_own_gets_its_mapping_as_it_is(tmp_path: Path) -> None:
    assert load(tmp_path, "my_arm:MyArm", {"ip": "172.16.0.2"}) == {"ip": "172.16.0.2"}
