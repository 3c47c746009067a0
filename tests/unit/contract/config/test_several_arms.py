"""A robot with several arms is one robot: one list of joints, a gripper and a workspace for each arm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rosa_client.motion.limits import pose_problems
from rosa_contract.config.robot import RobotSpec, hello_of, load_robot
from rosa_contract.errors import ConfigError
from rosa_contract.kinematics.chain import Chain

ROBOTS = Path(__file__).parents[4] / "configs" / "robots"
PAIR = ROBOTS / "bimanual_ur5e.yaml"


def changed(tmp_path: Path, change: Any) -> RobotSpec:
    document = yaml.safe_load(PAIR.read_text())
    change(document)
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return load_robot(path)


def test_its_columns_states_and_spaces_are_those_of_all_arms() -> None:
    spec = load_robot(PAIR)
    assert spec.action_names == (*spec.joints, "left_gripper", "right_gripper")
    assert hello_of("pair", "fold", spec).state == {"joint_position": 12, "gripper_width": 2}
    assert [limb.joints for limb in spec.limbs] == [slice(0, 6), slice(6, 12)]
    assert "tool_pose" in spec.spaces
    assert len(set(spec.finger_joints)) == 4
    assert pose_problems(spec) == []


def test_an_arm_stands_where_it_is_mounted() -> None:
    left, right = (Chain(limb.chain) for limb in load_robot(PAIR).limbs if limb.chain is not None)
    q_rad = np.array([0.3, -1.2, 1.0, -0.4, 0.2, 0.1])
    np.testing.assert_allclose(left.tool(q_rad) - right.tool(q_rad), [0.0, 0.8, 0.0], atol=1e-9)
    np.testing.assert_allclose(left.places(q_rad.tolist()), left.points(q_rad), atol=1e-12)


def test_the_shipped_so101_is_read_from_its_urdf_file() -> None:
    spec = load_robot(ROBOTS / "so101.yaml")
    assert spec.action_names == (
        "shoulder_pan",
        "shoulder_lift",
        "elbow_flex",
        "wrist_flex",
        "wrist_roll",
        "gripper",
    )
    assert spec.limits.position_max_rad[2] == 1.69
    assert set(spec.spaces) == {"joint_delta", "joint_step_delta", "joint_velocity"}
    assert pose_problems(spec) == []


def drop(*keys: str) -> Any:
    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        del document[keys[-1]]

    return change


def put(value: Any, *keys: str) -> Any:
    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "path", "says"),
    [
        (put({"min_m": 0.0, "max_m": 0.1}, "gripper"), "gripper", "is set for each arm, in `arms`"),
        (put(["x"], "arms", "left", "joints"), "arms", "joint 1 is left_shoulder_pan_joint, got x"),
        (put([], "arms", "left", "joints"), "arms.left.joints", "is empty"),
        (put([0.0, 0.4], "arms", "left", "chain", "mounted"), "arms.left.chain.mounted", "got 2 numbers"),
        (put([0.0], "arms", "right", "chain", "a_m"), "arms.right.chain.a_m", "expected 7 values"),
        (put([0.9, 1.0, 0.01], "arms", "left", "workspace", "max_m"), "arms.left.workspace.max_m", "z must be > min_m"),
        (put({"min_m": 0.1, "max_m": 0.1}, "arms", "left", "gripper"), "arms.left.gripper.max_m", "must be > min_m"),
        (drop("arm", "grippers", "left"), "arm.grippers.left", "expected the gripper of arm left"),
        (put({}, "arm", "grippers", "middle"), "arm.grippers.middle", "expected an arm with a gripper"),
        (put({"address": "fr3"}, "arm"), "arm.address", "unknown key"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_named(tmp_path: Path, change: Any, path: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        changed(tmp_path, change)
    assert path in [problem.path for problem in caught.value.problems]
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["upper_left", "topleft"])
def test_no_arms_name_ends_as_that_of_another(name: str, tmp_path: Path) -> None:
    """Fingers are told apart by it: those of topleft would count for the width of left's gripper, too."""

    def rename(document: Any) -> None:
        for whose in (document["arms"], document["arm"]["grippers"]):
            whose[name] = whose.pop("right")

    with pytest.raises(ConfigError) as caught:
        changed(tmp_path, rename)
    assert [(one.path, one.cause) for one in caught.value.problems] == [(f"arms.{name}", "conflict")]


def test_the_grippers_of_two_arms_have_fingers_of_their_own(tmp_path: Path) -> None:
    """Or one gripper would be told as open as the other."""
    path, says = "arm.grippers.right.joints[0]", "left_knuckle_joint is already arm.grippers.left.joints[0]"
    with pytest.raises(ConfigError) as caught:
        changed(tmp_path, put(["left_knuckle_joint"], "arm", "grippers", "right", "joints"))
    assert [(one.path, one.words) for one in caught.value.problems] == [(path, says)]


def test_the_grippers_of_two_arms_are_not_moved_by_one_action(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        changed(tmp_path, put("left_gripper/gripper_cmd", "arm", "grippers", "right", "action"))
    assert [(one.path, one.cause) for one in caught.value.problems] == [
        ("arm.grippers.right.action", "conflict")
    ]


def test_a_driver_of_one_arm_does_not_drive_two(tmp_path: Path) -> None:
    def franka(document: Any) -> None:
        document |= {"arm_driver": "franka", "arm": {"address": "fr3"}}

    with pytest.raises(ConfigError, match="driver franka moves one arm; this robot has left, right"):
        changed(tmp_path, franka)
