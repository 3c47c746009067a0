"""Robots of other shapes: what orders make of them, and that limits, seams and the stop hold for all of their arms."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_client.motion.action_space import ActionSpaces
from rosa_client.motion.arm_orders import MoveTo, OrderId, Play, Setpoint
from rosa_client.motion.chunk_check import BadChunk, check_chunk
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.refusal import Refusal
from rosa_client.motion.setpoint_guard import SetpointGuard
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.kinematics.arm import Arm
from rosa_contract.kinematics.chain import Chain
from rosa_contract.kinematics.joining import blended
from rosa_contract.rotations import written
from rosa_contract.wire.messages import Output
from rosa_contract.wire.overlap import Overlap

ROBOTS = Path(__file__).parents[4] / "configs" / "robots"
BODIES = {name: load_robot(ROBOTS / f"{name}.yaml") for name in ("so101", "bimanual_ur5e", "ur5e")}
PAIR = BODIES["bimanual_ur5e"]
RATE_HZ, STEP_S = 100.0, 0.05
Array = np.ndarray[Any, np.dtype[np.float64]]


def seen(robot: RobotSpec, q_rad: Any, width_m: float = 0.03) -> dict[str, Array]:
    state = {"joint_position": np.asarray(q_rad, np.float32)}
    return state | (
        {"gripper_width": np.full(len(robot.grippers), width_m, np.float32)} if robot.grippers else {}
    )


def resolved(robot: RobotSpec, space: str, rows: Any, told_m: Any = None) -> Array:
    output = Output({space: np.asarray(rows, np.float32), "step_s": np.array([STEP_S], np.float32)})
    made = ActionSpaces(robot).in_joints(output, seen(robot, robot.home_rad), told_m, 0.4)
    return check_chunk(made, MotionLimits.of(robot), 0.4)[0]


def refused(robot: RobotSpec, space: str, rows: Any) -> Refusal:
    with pytest.raises(BadChunk) as error:
        resolved(robot, space, rows)
    return error.value.refusal


def begun(robot: RobotSpec) -> tuple[ChunkPlayer, SetpointGuard]:
    limits = MotionLimits.of(robot)
    player, guard = ChunkPlayer(limits, RATE_HZ), SetpointGuard(limits, RATE_HZ)
    player.reset(robot.home_rad, limits.open_m)
    guard.begin(np.array(robot.home_rad))
    return player, guard


def test_each_arm_s_tool_goes_where_its_own_columns_say() -> None:
    row = np.zeros((1, 14))
    row[0, :3], row[0, 6:9], row[0, 12:] = (0.02, 0.01, 0.0), (0.0, -0.02, 0.03), (0.5, 1.0)
    chunk = resolved(PAIR, "tool_delta", row)
    home = np.array(PAIR.home_rad)
    for limb, shift in zip(PAIR.limbs, (row[0, :3], row[0, 6:9]), strict=True):
        assert limb.chain is not None
        tool = Chain(limb.chain).tool
        assert tool(chunk[0, limb.joints]) == pytest.approx(tool(home[limb.joints]) + shift, abs=1.5e-3)
    assert chunk[0, 12:] == pytest.approx([0.0425, 0.085])
    kept = resolved(PAIR, "tool_delta", row[:, :12], told_m=(0.01, 0.07))
    assert kept[0, 12:] == pytest.approx([0.01, 0.07])
    far = row.copy()
    far[0, 6] = 3.0
    said = refused(PAIR, "tool_delta", far)
    assert said.cause == "unreachable" and "tool_delta of right" in said.reason
    said = refused(PAIR, "tool_delta", row[:, :13])
    assert said.cause == "wrong_shape" and "(rows, 12 or 14), the last 2 the grippers'" in said.reason


def test_a_workspace_is_its_own_arm_s() -> None:
    limits = MotionLimits.of(PAIR)
    home = np.array([*PAIR.home_rad, 0.08, 0.08])
    for limb in PAIR.limbs:
        row = home.copy()
        row[limb.joints.start] += 1.4 if limb.name == "left" else -1.4
        turned = limits.refusal(row[None], "it", home[:12])
        row[limb.joints.start] = home[limb.joints.start] + (-1.4 if limb.name == "left" else 1.4)
        other = limits.refusal(row[None], "it", home[:12])
        both = [one for one in (turned, other) if one is not None]
        assert any(one.cause == "workspace" and f"{limb.name} " in one.reason for one in both), limb.name


def test_one_gripper_s_range_is_not_the_other_s() -> None:
    narrow = dict(PAIR.arms)
    narrow["right"] = replace(narrow["right"], gripper=replace(narrow["right"].gripper, max_m=0.04))
    robot = replace(PAIR, arms=narrow)
    limits = MotionLimits.of(robot)
    home = list(robot.home_rad)
    assert limits.refusal([[*home, 0.08, 0.04]], "it") is None
    said = limits.refusal([[*home, 0.04, 0.08]], "it")
    assert said is not None and said.cause == "gripper_range" and "gripper 2 is 0.08 m" in said.reason
    player, guard = begun(robot)
    assert player.order(0.0, OrderId(1, 1), MoveTo(home, [0.02, math.nan])) is None
    told = player.update(0.01)
    assert told is not None and told.gripper_m == pytest.approx([0.02, 0.04])
    assert player.order(0.02, OrderId(1, 2), MoveTo(home, math.inf)) is None
    told = player.update(0.03)
    assert told is not None and told.gripper_m == pytest.approx([0.085, 0.04])
    wrong = Setpoint(np.array(home), np.array([0.04, 0.08]), np.array(home), 0.1)
    said = guard.check(wrong)
    assert isinstance(said, Refusal) and said.cause == "setpoint_gripper"


def test_the_seam_of_two_chunks_is_blended_in_joints_and_kept_in_every_gripper() -> None:
    plays = Overlap(np.tile([*PAIR.home_rad, 0.08, 0.02], (6, 1)).astype(np.float32), 2, STEP_S)
    rows = np.zeros((8, 14))
    rows[:, 12:] = (0.0, 1.0)
    output = Output({"joint_delta": rows.astype(np.float32), "step_s": np.array([STEP_S], np.float32)})
    made = ActionSpaces(PAIR).in_joints(output, seen(PAIR, PAIR.home_rad), None, 0.4, plays)
    chunk = made.arrays["actions"]
    assert chunk[:2, 12:] == pytest.approx(np.tile([0.08, 0.02], (2, 1)))
    assert chunk[2:, 12:] == pytest.approx(np.tile([0.0, 0.085], (6, 1)))
    bare = Overlap(np.ones((4, 6), np.float32), 1, STEP_S)
    assert (blended(np.zeros((8, 6), np.float32), bare, 0)[1:3] > 0).all(), "also the last joint is blended"


NUMBERS = st.lists(st.floats(-1.0, 1.0, width=32), min_size=14, max_size=56)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    body=st.sampled_from(sorted(BODIES)),
    turns=st.lists(st.tuples(st.integers(0, 20), NUMBERS, st.sampled_from([0.3, 1.0, 20.0])), min_size=1, max_size=3),
    periods=st.lists(st.integers(1, 50), min_size=3, max_size=3),
    pressed_after=st.integers(0, 2),
)  # fmt: skip
def test_no_answer_takes_a_setpoint_of_any_arm_over_a_limit_or_moves_a_stopped_robot(
    body: str, turns: list[tuple[int, list[float], float]], periods: list[int], pressed_after: int
) -> None:
    """As for the Panda in test_action_space.py, for arms of other shapes and for two at once; one stop is for all."""
    robot = BODIES[body]
    spaces, (player, guard) = ActionSpaces(robot), begun(robot)
    limits, names = MotionLimits.of(robot), ("actions", *robot.spaces)
    now_s, here, widths = 0.0, np.array(robot.home_rad), limits.open_m
    for number, ((which, values, strength), wait) in enumerate(zip(turns, periods, strict=False)):
        space = names[which % len(names)]
        output = Output(
            {space: answered(robot, space, values, strength, here), "step_s": np.array([STEP_S], np.float32)}
        )
        try:
            chunk, step_s = check_chunk(spaces.in_joints(output, seen(robot, here), None, 0.4), limits, 0.4)
        except BadChunk as problem:
            assert problem.refusal.cause
        else:
            player.order(now_s, OrderId(1, number + 1), Play(chunk, step_s))
        if number == pressed_after:
            player.press_emergency_stop("a test")
        for _ in range(wait):
            now_s += 1 / RATE_HZ
            player.alive(now_s, player.last)
            here, widths = sent(player, guard, now_s)
    player.press_emergency_stop("a test")
    places = []
    for _ in range(140):
        now_s += 1 / RATE_HZ
        here, widths = sent(player, guard, now_s)
        places.append(np.concatenate([here, widths]))
    chunk = np.tile(np.concatenate([here, limits.closed_m]), (4, 1))
    assert player.order(now_s, OrderId(1, 99), Play(chunk, STEP_S)) is not None
    for _ in range(30):
        now_s += 1 / RATE_HZ
        places.append(np.concatenate(sent(player, guard, now_s)))
    assert np.ptp(np.stack(places[100:]), axis=0).max() < 1e-9, "a latched stop moves no arm and no gripper"


def sent(player: ChunkPlayer, guard: SetpointGuard, now_s: float) -> tuple[Array, Array]:
    """What passes the last check in this period."""
    setpoint = player.update(now_s)
    assert setpoint is not None
    command = guard.check(setpoint)
    assert not isinstance(command, Refusal), command
    return command.q_rad, command.gripper_m


def answered(robot: RobotSpec, space: str, values: list[float], strength: float, here: Array) -> Array:
    """Rows of this space, from small ones to such that no arm can follow."""
    columns = {"actions": len(robot.joints)}.get(
        space, 6 * len(robot.limbs) if "tool" in space else len(robot.joints)
    )
    rows = np.resize(np.array(values), (4, columns + len(robot.grippers)))
    body = rows[:, :columns] * strength * (0.04 if "tool" in space else 0.3)
    if space == "actions":
        body = body + here
    if space == "tool_pose":
        body = body + np.concatenate([posed(limb, robot, here) for limb in robot.limbs])
    wide = np.abs(rows[:, columns:]) * (0.08 if space == "actions" else 1.0)
    return np.column_stack([body, wide]).astype(np.float32)


def posed(limb: Any, robot: RobotSpec, here: Array) -> Array:
    low, high = robot.limits.position_min_rad[limb.joints], robot.limits.position_max_rad[limb.joints]
    place, orientation = Arm(limb.chain, low, high).pose(here[limb.joints])
    return np.concatenate([place, written("axis_angle", orientation)])
