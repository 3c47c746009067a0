"""A width becomes the position that a gripper's own driver means by it, and the measured position becomes the width."""

from __future__ import annotations

import pytest

from rosa_client.drivers.arms.gripper_scale import goal_scale, joint_scale
from rosa_contract.config.arms import GripperActions
from rosa_contract.config.robot import GripperSpec

ROBOTIQ_2F85 = GripperSpec(0.0, 0.085)
PANDA = GripperSpec(0.0, 0.08)
KNUCKLE = GripperActions(
    kind="parallel_gripper_command",
    open_position=0.0,
    closed_position=0.8,
    joints=("robotiq_85_left_knuckle_joint",),
)


def test_a_robotiq_is_closed_at_the_greater_angle() -> None:
    goal, joint = goal_scale(ROBOTIQ_2F85, KNUCKLE), joint_scale(ROBOTIQ_2F85, KNUCKLE, 1)
    assert goal.position(0.085) == 0.0
    assert goal.position(0.0) == pytest.approx(0.8)
    assert goal.position(0.0425) == pytest.approx(0.4)
    assert joint.width_m(0.0) == pytest.approx(0.085)
    assert joint.width_m(0.8) == pytest.approx(0.0)


def test_without_positions_a_goal_is_the_width_and_the_joints_add_up_to_it() -> None:
    settings = GripperActions()
    assert goal_scale(PANDA, settings).position(0.03) == pytest.approx(0.03)
    assert joint_scale(PANDA, settings, 2).width_m(0.02) == pytest.approx(0.04)
    assert joint_scale(PANDA, settings, 1).width_m(0.04) == pytest.approx(0.04)


def test_frankas_gripper_command_is_the_place_of_one_finger() -> None:
    settings = GripperActions(open_position=0.04, closed_position=0.0)
    assert goal_scale(PANDA, settings).position(0.06) == pytest.approx(0.03)
    assert joint_scale(PANDA, settings, 2).width_m(0.03) == pytest.approx(0.06)


def test_joints_may_have_positions_of_their_own() -> None:
    """The action takes the gap, while the joint that is published turns the other way."""
    settings = GripperActions(joints=("jaw",), joint_open_position=-0.2, joint_closed_position=0.6)
    assert goal_scale(PANDA, settings).position(0.02) == pytest.approx(0.02)
    assert joint_scale(PANDA, settings, 1).width_m(0.2) == pytest.approx(0.04)


@pytest.mark.parametrize("settings", [KNUCKLE, GripperActions(), GripperActions(kind="franka")])
@pytest.mark.parametrize("gripper", [ROBOTIQ_2F85, PANDA, GripperSpec(0.01, 0.11)])
def test_both_ways_agree(gripper: GripperSpec, settings: GripperActions) -> None:
    for scale in (goal_scale(gripper, settings), joint_scale(gripper, settings, 2)):
        for width_m in (gripper.min_m, 0.03, gripper.max_m):
            assert scale.width_m(scale.position(width_m)) == pytest.approx(width_m)
