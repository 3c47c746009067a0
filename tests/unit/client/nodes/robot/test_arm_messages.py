"""Arm commands and joint states of a robot with a gripper, and of one without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from rosa_interfaces.msg import ActionChunk, ArmCommand

from rosa_client.drivers.arms import ArmState
from rosa_client.motion.arm_orders import Play, Unreadable
from rosa_client.nodes.robot.arm_messages import joint_state, to_order
from rosa_contract.config.robot import WITHOUT_GRIPPER, load_robot

PANDA = load_robot(Path(__file__).parents[5] / "configs" / "robots" / "panda.yaml")
BARE = replace(PANDA, gripper=WITHOUT_GRIPPER)


def play(names: tuple[str, ...], rows: list[list[float]]) -> ArmCommand:
    chunk = ActionChunk(step_s=0.1, horizon=len(rows), names=list(names), data=np.ravel(rows).tolist())
    return ArmCommand(kind=ArmCommand.PLAY, chunk=chunk)


def test_an_arm_without_a_gripper_takes_chunks_of_joints_only() -> None:
    order = to_order(play(BARE.action_names, [[0.5] * 7, [0.25] * 7]), BARE)
    assert isinstance(order, Play)
    assert np.asarray(order.actions).tolist() == [[0.5] * 7, [0.25] * 7]
    refused = to_order(play(PANDA.action_names, [[0.5] * 8]), BARE)
    assert isinstance(refused, Unreadable) and "'gripper'" in refused.why


def test_an_arm_with_a_gripper_takes_no_chunk_that_leaves_it_out() -> None:
    assert isinstance(to_order(play(PANDA.action_names, [[0.5] * 8]), PANDA), Play)
    refused = to_order(play(BARE.action_names, [[0.5] * 7]), PANDA)
    assert isinstance(refused, Unreadable) and "expected columns" in refused.why


def test_a_chunk_says_which_speed_its_sender_counts_with() -> None:
    slow = replace(PANDA, velocity_scale=0.5)
    message = play(PANDA.action_names, [[0.5] * 8, [0.25] * 8])
    message.skip_s = 0.05
    order = to_order(message, slow)
    assert isinstance(order, Play) and (order.skip_s, order.velocity_scale) == (0.05, 0.5)


@pytest.mark.parametrize(("spec", "fingers"), [(PANDA, [0.02, 0.02]), (BARE, [])])
def test_finger_joints_are_published_only_where_there_are_fingers(spec, fingers: list[float]) -> None:
    widths = np.array([sum(fingers)] if fingers else [])
    state = ArmState(np.arange(7.0), np.zeros(7), widths, effort_nm=np.ones(7))
    message = joint_state([*spec.joints, *spec.finger_joints], state, Time(sec=1))
    assert list(message.name) == [*spec.joints, *spec.finger_joints]
    assert list(message.position) == [*range(7), *fingers]
    assert len(message.velocity) == len(message.effort) == len(message.name)


def test_each_gripper_has_fingers_of_its_own() -> None:
    pair = load_robot(Path(__file__).parents[5] / "configs" / "robots" / "bimanual_ur5e.yaml")
    state = ArmState(np.zeros(12), np.zeros(12), np.array([0.04, 0.02]))
    message = joint_state([*pair.joints, *pair.finger_joints], state, Time(sec=1))
    widths = dict(zip(message.name, message.position, strict=True))
    assert widths["bimanual_ur5e_left_finger_joint1"] == widths["bimanual_ur5e_left_finger_joint2"] == 0.02
    assert widths["bimanual_ur5e_right_finger_joint2"] == 0.01
