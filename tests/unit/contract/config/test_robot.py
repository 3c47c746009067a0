"""A robot file says what the robot is; a mistake in it is named, and the Panda's agrees with its hardware page."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from rosa_contract.config.robot import RobotSpec, hello_of, load_robot
from rosa_contract.errors import ConfigError

ROOT = Path(__file__).parents[4]
PANDA = ROOT / "configs" / "robots" / "panda.yaml"


@pytest.fixture
def panda() -> RobotSpec:
    return load_robot(PANDA)


def test_without_poses_of_its_own_a_retry_passes_the_safe_pose_and_puts_nothing_down(
    panda: RobotSpec,
) -> None:
    plain = replace(panda, clear_rad=None, drop_rad=None)
    assert plain.pose("clear") == plain.safe_rad
    assert "drop" not in plain.poses
    with pytest.raises(KeyError, match="panda has no pose 'drop'; it has home, safe, clear"):
        plain.pose("drop")


@pytest.mark.parametrize(
    ("change", "cause", "says"),
    [
        ({"drop_rad": [0.0]}, "wrong_length", "drop_rad: expected 7 values, one per joint, got 1"),
        (
            {"clear_rad": [9.0, 0, 0, -1, 0, 1, 0]},
            "conflict",
            "clear_rad[0]: must be within the joint's limits",
        ),
        ({"arm_driver": ""}, "missing", "arm_driver: is missing; expected the name of an arm driver"),
        ({"velocity_scale": 1.5}, "out_of_range", "velocity_scale: must be <= 1, got 1.5"),
        ({"velocity_scale": 0}, "out_of_range", "velocity_scale: must be > 0, got 0"),
        ({"chain": None}, "conflict", "workspace: needs `chain`"),
        (
            {"workspace": {"min_m": [0, 0], "max_m": [1, 1, 1]}},
            "wrong_length",
            "workspace.min_m: expected 3 values, got 2",
        ),
        ({"workspace": {"min_m": [0, 0, 1], "max_m": [1, 1, 1]}}, "conflict", "z must be > min_m (1), got 1"),
    ],
)
def test_a_mistake_is_named(change: dict[str, object], cause: str, says: str, tmp_path: Path) -> None:
    wrong = tmp_path / "robot.yaml"
    wrong.write_text(yaml.safe_dump(yaml.safe_load(PANDA.read_text()) | change))
    with pytest.raises(ConfigError) as caught:
        load_robot(wrong)
    assert any(says in str(one) and one.cause == cause for one in caught.value.problems), str(caught.value)


@pytest.mark.parametrize(
    "limits",
    [{"jerk_rad_s3": [1e-12] * 7}, {"acceleration_rad_s2": [1e-9] * 7}, {"velocity_rad_s": [1e300] * 7}],
)
def test_an_arm_that_would_hardly_ever_stop_is_refused(limits: dict[str, object], tmp_path: Path) -> None:
    """Nor could a node remember so many periods of its motion."""
    page = yaml.safe_load(PANDA.read_text())
    wrong = tmp_path / "robot.yaml"
    wrong.write_text(yaml.safe_dump(page | {"limits": page["limits"] | limits}))
    with pytest.raises(ConfigError) as caught:
        load_robot(wrong)
    assert {(one.path, one.cause) for one in caught.value.problems} == {("limits", "conflict")}
    assert "joint 1 would take" in str(caught.value) and "expected at most 10 s" in str(caught.value)


def test_what_a_mistake_leaves_readable_is_checked_in_the_same_round(tmp_path: Path) -> None:
    wrong = tmp_path / "robot.yaml"
    change = {"velocity_scale": 1.5, "contrl_rate_hz": 100, "clear_rad": [9.0, 0, 0, -1, 0, 1, 0]}
    wrong.write_text(yaml.safe_dump(yaml.safe_load(PANDA.read_text()) | change))
    with pytest.raises(ConfigError) as caught:
        load_robot(wrong)
    assert {one.path for one in caught.value.problems} == {"velocity_scale", "contrl_rate_hz", "clear_rad[0]"}


def test_standard_denavit_hartenberg_parameters_are_the_same_arm(tmp_path: Path) -> None:
    """Those of Universal Robots' own table for the UR5e."""
    shipped = ROOT / "configs" / "robots" / "ur5e.yaml"
    document = yaml.safe_load(shipped.read_text())
    turn = math.pi / 2
    document["chain"] |= {
        "convention": "standard",
        "a_m": [0.0, -0.425, -0.3922, 0.0, 0.0, 0.0],
        "d_m": [0.1625, 0.0, 0.0, 0.1333, 0.0997, 0.0996],
        "alpha_rad": [turn, 0.0, 0.0, turn, -turn, 0.0],
    }
    path = tmp_path / "ur5e.yaml"
    path.write_text(yaml.safe_dump(document))
    assert load_robot(path).chain == load_robot(shipped).chain
    document["chain"]["a_m"].append(0.0)
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match=r"chain\.a_m: expected 6 values, one per joint, got 7"):
        load_robot(path)


def test_mistakes_of_every_kind_are_told_in_one_round(tmp_path: Path) -> None:
    document = yaml.safe_load((ROOT / "configs" / "robots" / "ur5e.yaml").read_text())
    document |= {"safe_rad": [0.0], "gripper": {"min_m": 0.2, "max_m": 0.1}, "arm": {"controler": "x"}}
    document["home_rad"][2] = 9.0
    document["chain"]["a_m"] = [0.0]
    document["workspace"]["max_m"][0] = -1.0
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError) as error:
        load_robot(path)
    assert {one.path for one in error.value.problems} == {
        "safe_rad",
        "home_rad[2]",
        "gripper.max_m",
        "arm.controler",
        "chain.a_m",
        "workspace.max_m",
    }


def test_spaces_of_the_tool_need_the_links(panda: RobotSpec, tmp_path: Path) -> None:
    assert {"tool_pose", "joint_velocity"} <= set(panda.spaces)
    assert hello_of("panda0", "pick", panda).actions == panda.spaces
    document = yaml.safe_load(PANDA.read_text()) | {"action_spaces": ["joint_delta", "tool_pse"]}
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match=r"action_spaces\[1\]: must be one of .*did you mean 'tool_pose'"):
        load_robot(path)
    document |= {"action_spaces": ["joint_delta", "tool_pose"]}
    path.write_text(yaml.safe_dump(document))
    assert load_robot(path).spaces == ("joint_delta", "tool_pose")
    del document["chain"], document["workspace"]
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match=r"action_spaces\[1\]: tool_pose needs `chain`"):
        load_robot(path)


@pytest.mark.parametrize(
    ("change", "cause", "says"),
    [
        (
            {"a_m": [0.0]},
            "wrong_length",
            "chain.a_m: expected 8 values, one per joint and one for the flange, got 1",
        ),
        ({"points": {"elbow": 9}}, "out_of_range", "chain.points.elbow: must be a joint from 1 to 7, got 9"),
        ({"points": {"elbow": 0}}, "out_of_range", "chain.points.elbow: must be >= 1, got 0"),
    ],
)
def test_a_chain_that_does_not_fit_the_joints_is_named(
    change: dict[str, object], cause: str, says: str, tmp_path: Path
) -> None:
    page = yaml.safe_load(PANDA.read_text())
    page["chain"] |= change
    wrong = tmp_path / "robot.yaml"
    wrong.write_text(yaml.safe_dump(page))
    with pytest.raises(ConfigError) as caught:
        load_robot(wrong)
    assert any(says in str(one) and one.cause == cause for one in caught.value.problems), str(caught.value)


def test_the_panda_behind_ros2_control_differs_only_in_how_it_is_reached(panda: RobotSpec) -> None:
    other = load_robot(PANDA.with_name("panda_ros2_control.yaml"))
    assert other.arm_driver == "ros2_control"
    reached = {"arm_driver": panda.arm_driver, "arm": {}, "camera_driver": panda.camera_driver, "extends": ""}
    assert replace(other, **reached) == panda


def test_the_fr3_over_fci_differs_only_in_how_it_is_reached() -> None:
    fr3 = load_robot(PANDA.with_name("fr3.yaml"))
    other = load_robot(PANDA.with_name("fr3_franka.yaml"))
    assert other.arm_driver == "franka"
    assert replace(other, arm_driver=fr3.arm_driver, arm=fr3.arm, extends=fr3.extends) == fr3


def test_the_fr3_has_the_links_of_the_panda_and_begins_slowly(panda: RobotSpec) -> None:
    fr3 = load_robot(PANDA.with_name("fr3.yaml"))
    assert fr3.chain == panda.chain and fr3.home_rad == panda.home_rad
    assert not set(fr3.joints) & set(panda.joints) and fr3.limits != panda.limits
    assert fr3.velocity_scale <= 0.2, "a file that nobody has tried on hardware begins slowly"


def test_the_robot_of_the_sorting_cell_differs_in_cell_cameras_and_poses_to_reset_by_only(
    panda: RobotSpec,
) -> None:
    sorter = load_robot(ROOT / "configs" / "robots" / "panda_sort_parts.yaml")
    assert sorter.arm_driver == sorter.camera_driver == "mujoco_sort_parts"
    assert {name: replace(camera, pose=None) for name, camera in sorter.cameras.items()} == {
        name: replace(camera, pose=None) for name, camera in panda.cameras.items()
    }
    same = ("arm_driver", "camera_driver", "cameras", "clear_rad", "drop_rad", "extends")
    assert replace(sorter, **{name: getattr(panda, name) for name in same}) == panda


# Per joint: highest speed, offset (rad/s), twice the deceleration (rad/s^2), range (rad). libfranka 0.15 to 0.17,
# rate_limiting.h; and Franka's control-parameters-joint-fr3.csv of 2025-10.
FR3_SPEEDS = {
    "libfranka": (
        (2.62, 0.30, 12.0, -2.7501, 2.7501),
        (2.62, 0.20, 5.17, -1.7918, 1.7918),
        (2.62, 0.20, 7.0, -2.9065, 2.9065),
        (2.62, 0.30, 8.0, -3.0481, -0.1458),
        (5.26, 0.35, 34.0, -2.8101, 2.8101),
        (4.18, 0.35, 11.0, 0.54092, 4.5205),
        (5.26, 0.35, 34.0, -3.0196, 3.0196),
    ),
    "docs": (
        (2.62, 0.6599, 12.0, -2.9007, 2.9007),
        (2.62, 0.2517, 5.17, -1.8361, 1.8361),
        (2.62, 0.2, 7.0, -2.9007, 2.9007),
        (2.62, 0.3533, 8.0, -3.0770, -0.1169),
        (5.26, 0.5757, 34.0, -2.8763, 2.8763),
        (4.18, 0.4878, 11.0, 0.4398, 4.6216),
        (5.26, 0.4628, 34.0, -3.0508, 3.0508),
    ),
}


@pytest.mark.parametrize("source", FR3_SPEEDS)
def test_the_fr3s_constant_speeds_are_allowed_in_its_whole_range(source: str) -> None:
    """Franka's allowed speed falls with the square root of the distance to the end of a joint."""
    limits = load_robot(PANDA.with_name("fr3.yaml")).limits
    ours = zip(limits.velocity_rad_s, limits.position_min_rad, limits.position_max_rad, strict=True)
    for (speed, low, high), (highest, offset, twice, lowest, last) in zip(
        ours, FR3_SPEEDS[source], strict=True
    ):
        for left in (low - lowest, last - high):
            allowed = min(highest, max(0.0, math.sqrt(max(0.0, twice * left)) - offset))
            assert speed <= allowed + 0.001, "libfranka tolerates a milliradian per second"
    assert set(limits.acceleration_rad_s2) == {10.0}
    assert set(limits.jerk_rad_s3) == {5000.0}
