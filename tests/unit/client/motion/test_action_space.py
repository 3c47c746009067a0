"""Answers in other spaces than joint positions: what they become, what is refused, and that every limit holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_client.motion.action_space import MAX_TOOL_ROWS, ActionSpaces
from rosa_client.motion.arm_orders import Hold, OrderId, Play
from rosa_client.motion.chunk_check import BadChunk, check_chunk
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.refusal import Refusal
from rosa_client.motion.setpoint_guard import SetpointGuard
from rosa_contract.config.robot import WITHOUT_GRIPPER, RobotSpec, load_robot
from rosa_contract.config.spaces import SPACES
from rosa_contract.kinematics.arm import Arm
from rosa_contract.kinematics.joining import blended
from rosa_contract.rotations import matrix, written
from rosa_contract.wire.messages import Output
from rosa_contract.wire.overlap import Overlap

PANDA = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")
assert PANDA.chain is not None
ARM = Arm(PANDA.chain, PANDA.limits.position_min_rad, PANDA.limits.position_max_rad)
HOME = np.array(PANDA.home_rad)
SEEN = {"joint_position": HOME.astype(np.float32), "gripper_width": np.array([0.03], np.float32)}
UR5E = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "ur5e.yaml")
STEP_S, RATE_HZ = 0.05, 100.0
Array = np.ndarray[Any, np.dtype[np.float64]]


def answer(space: str, rows: Any, **more: Any) -> Output:
    return Output({space: np.asarray(rows, np.float32), "step_s": np.array([STEP_S], np.float32)} | more)


def joints(space: str, rows: Any, robot: RobotSpec = PANDA, told_m: tuple[float, ...] | None = None) -> Array:
    """The chunk `(rows, 8)`, checked as the runtime does it."""
    made = ActionSpaces(robot).in_joints(answer(space, rows), SEEN, told_m, 0.4)
    chunk, step_s = check_chunk(made, MotionLimits.of(robot), 0.4)
    assert step_s == pytest.approx(STEP_S)
    return chunk


def refused(space: str, rows: Any, robot: RobotSpec = PANDA, seen: Any = SEEN) -> Refusal:
    with pytest.raises(BadChunk) as error:
        ActionSpaces(robot).in_joints(answer(space, rows), seen, None, 0.4)
    return error.value.refusal


def turned(number: int, by: float, rows: int = 4) -> Array:
    """One joint's column, the others 0."""
    made = np.zeros((rows, 7))
    made[:, number] = by
    return made


def test_joint_spaces_begin_where_the_arm_was_seen() -> None:
    start = float(np.float32(HOME[0]))
    assert joints("joint_delta", turned(0, 0.1))[:, 0] == pytest.approx([start + 0.1] * 4)
    assert joints("joint_step_delta", turned(0, 0.1))[:, 0] == pytest.approx(
        start + np.array([0.1, 0.2, 0.3, 0.4])
    )
    assert joints("joint_velocity", turned(0, 0.2))[:, 0] == pytest.approx(
        start + np.array([1, 2, 3, 4]) * 0.2 * STEP_S
    )


def test_tool_spaces_bring_the_tool_where_they_say() -> None:
    place, orientation = ARM.pose(HOME)
    rotation = np.array([0.0, 0.0, 0.06])
    delta = np.concatenate([[0.01, -0.02, 0.015], rotation])
    turn = matrix("axis_angle", rotation)
    pose = np.concatenate([place + delta[:3], written("axis_angle", turn @ orientation)])
    expected = {
        "tool_pose": (pose, place + delta[:3], turn @ orientation),
        "tool_delta": (delta, place + delta[:3], turn @ orientation),
        "tool_step_delta": (delta, place + delta[:3], turn @ orientation),
        "tool_velocity": (delta / STEP_S, place + delta[:3], turn @ orientation),
        "tool_delta_in_tool": (delta, place + orientation @ delta[:3], orientation @ turn),
        "tool_step_delta_in_tool": (delta, place + orientation @ delta[:3], orientation @ turn),
        "tool_velocity_in_tool": (delta / STEP_S, place + orientation @ delta[:3], orientation @ turn),
    }
    assert expected.keys() == {name for name, space in SPACES.items() if space.needs_chain}
    for name, (row, where, how) in expected.items():
        chunk = joints(name, row[None])
        got = ARM.pose(chunk[0, :7])
        assert got[0] == pytest.approx(where, abs=1e-3), name
        assert got[1] == pytest.approx(how, abs=1e-2), name


def test_steps_along_the_tool_s_axes_follow_it_as_it_turns() -> None:
    rows = np.tile([0.004, 0.0, 0.0, 0.0, 0.0, 0.05], (4, 1))
    chunk = joints("tool_step_delta_in_tool", rows)
    place, orientation = ARM.pose(HOME)
    for row in chunk:
        place = place + orientation @ [0.004, 0.0, 0.0]
        orientation = orientation @ matrix("axis_angle", np.array([0.0, 0.0, 0.05]))
        assert ARM.pose(row[:7])[0] == pytest.approx(place, abs=1e-3)


def test_the_gripper_is_a_share_of_its_own_opening_or_keeps_what_it_was_told() -> None:
    rows = np.column_stack([turned(0, 0.0), [0.0, 0.25, 1.0, 7.0]])
    assert joints("joint_delta", rows)[:, 7] == pytest.approx([0.0, 0.02, 0.08, 0.08])
    assert joints("joint_delta", turned(0, 0.0), told_m=(0.01,))[:, 7] == pytest.approx(0.01)
    assert joints("joint_delta", turned(0, 0.0))[:, 7] == pytest.approx(0.03), "as it was seen"
    bare = replace(PANDA, gripper=WITHOUT_GRIPPER)
    seen = {"joint_position": SEEN["joint_position"]}
    made = ActionSpaces(bare).in_joints(answer("joint_delta", turned(0, 0.1)), seen, None, 0.4)
    assert check_chunk(made, MotionLimits.of(bare), 0.4)[0].shape == (4, 7)
    assert refused("joint_delta", rows, bare).cause == "wrong_shape"


def test_what_is_no_answer_of_this_robot_is_refused_with_a_cause() -> None:
    rows = turned(0, 0.1)
    several = answer("joint_delta", rows, actions=np.zeros((4, 8), np.float32))
    with pytest.raises(BadChunk) as error:
        ActionSpaces(PANDA).in_joints(several, SEEN, None, 0.4)
    assert error.value.refusal.cause == "several_actions"
    only = replace(PANDA, action_spaces=("joint_delta",))
    assert refused("joint_velocity", rows, only).cause == "wrong_space"
    assert "takes actions, joint_delta" in refused("joint_velocity", rows, only).reason
    for seen in (None, {}, {"joint_position": np.zeros(6)}, {"joint_position": np.full(7, np.nan)}):
        assert refused("joint_delta", rows, seen=seen).cause == "not_seen"
    assert refused("joint_delta", rows * np.nan).cause == "not_finite"
    assert refused("joint_delta", rows[:, :5]).cause == "wrong_shape"
    assert refused("joint_delta", rows[:0]).cause == "wrong_shape"
    assert refused("tool_delta", np.zeros((MAX_TOOL_ROWS + 1, 6))).cause == "too_long"


def checked(output: Output) -> None:
    check_chunk(ActionSpaces(PANDA).in_joints(output, SEEN, None, 0.4), FULL, 0.4)


def test_a_tool_that_turns_fast_turns_the_way_it_is_told() -> None:
    """4 rad/s is more than half a turn a second, and 0.2 rad in a row."""
    turn = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 4.0])
    here = {"joint_position": HOME}
    made = ActionSpaces(PANDA).in_joints(answer("tool_velocity", turn[None]), here, None, 0.4)
    orientation = matrix("axis_angle", turn[3:] * STEP_S) @ ARM.pose(HOME)[1]
    assert ARM.pose(made.arrays["actions"][0, :7])[1] == pytest.approx(orientation, abs=1e-2)
    said = refused("tool_step_delta", turn[None])
    assert said.cause == "too_large" and "turns by 4 rad in one row" in said.reason


@pytest.mark.parametrize("value", [1e3, 1e20, -3e38, 1e160, -1.7e308])
@pytest.mark.parametrize("space", sorted(SPACES))
def test_no_number_however_large_does_more_than_be_refused(space: str, value: float) -> None:
    """Arithmetic that overflows is a warning, which is an error here; a robot's core must not end by an answer."""
    rows = np.zeros((3, SPACES[space].columns(7)))
    for column in range(rows.shape[1]):
        one = rows.copy()
        one[:, column] = value
        with pytest.raises(BadChunk) as error:
            checked(Output({space: one}))
        assert error.value.refusal.cause in (
            "too_large",
            "unreachable",
            "joint_limit",
            "too_fast",
            "singular",
        )


def test_an_answer_in_joint_positions_and_one_without_actions_pass_as_they_are() -> None:
    for output in (answer("actions", np.zeros((2, 8))), Output(text="a plan")):
        assert ActionSpaces(PANDA).in_joints(output, None, None, 0.4) is output


def test_out_of_reach_singular_and_too_fast_are_refusals_that_name_the_row() -> None:
    far = np.zeros((3, 6))
    far[2, 0] = 3.0
    unreachable = refused("tool_delta", far)
    assert unreachable.cause == "unreachable" and "row 2: the tool cannot be at" in unreachable.reason
    leap = np.zeros((2, 6))
    leap[1, 1] = 0.3
    fast = refused("tool_delta", leap)
    assert fast.cause == "too_fast" and "row 1 is faster than the arm" in fast.reason

    straight = {
        "joint_position": np.array([3.1416, -1.2, 1.3, -1.6, 0.004, 0.0])
    }  # joints 4 and 6 on one axis
    arm = ActionSpaces(UR5E)
    rows = np.zeros((4, 6))
    rows[:, 1] = 0.012
    with pytest.raises(BadChunk) as error:
        arm.in_joints(answer("tool_step_delta", rows), straight, None, 0.4)
    said = error.value.refusal
    assert said.cause == "singular" and "passes a singular pose: joint" in said.reason


def test_an_arm_without_links_takes_joint_spaces_only() -> None:
    unknown = replace(PANDA, chain=None, workspace=None)
    assert set(unknown.spaces) == {"joint_delta", "joint_step_delta", "joint_velocity"}
    assert refused("tool_delta", np.zeros((2, 6)), unknown).cause == "wrong_space"


def test_what_a_robot_resolves_joins_what_it_plays() -> None:
    plays = Overlap(np.tile(np.append(HOME + 0.02, 0.08), (6, 1)).astype(np.float32), 2, STEP_S)
    spaces = ActionSpaces(PANDA)
    made = spaces.in_joints(answer("joint_delta", turned(0, 0.1, 8)), SEEN, (0.05,), 0.4, plays)
    alone = spaces.in_joints(answer("joint_delta", turned(0, 0.1, 8)), SEEN, (0.05,), 0.4)
    assert made.arrays["actions"] == pytest.approx(blended(alone.arrays["actions"], plays))
    assert made.arrays["actions"][:2] == pytest.approx(plays.actions[:2])
    other = replace(plays, step_s=0.1)
    with pytest.raises(BadChunk, match=r"overlap: expected steps of 0\.05 s"):
        spaces.in_joints(answer("joint_delta", turned(0, 0.1, 8)), SEEN, (0.05,), 0.4, other)


# -- every limit holds, whatever is answered --

FULL = MotionLimits.of(PANDA)
SCALES = {"joint": 0.3, "tool": 0.04}
numbers = st.lists(st.floats(-1.0, 1.0, width=32), min_size=8, max_size=64)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    turns=st.lists(
        st.tuples(st.sampled_from(sorted(SPACES)), numbers, st.sampled_from([0.3, 1.0, 20.0])),
        min_size=1,
        max_size=4,
    ),
    periods=st.lists(st.integers(1, 60), min_size=4, max_size=4),
    pressed_after=st.integers(0, 3),
)
def test_no_answer_in_any_space_takes_a_setpoint_over_a_limit_or_moves_a_stopped_arm(
    turns: list[tuple[str, list[float], float]], periods: list[int], pressed_after: int
) -> None:
    """Answer after answer, each taking over from the one before wherever that is; in between the stop is pressed."""
    spaces, player, guard = ActionSpaces(PANDA), ChunkPlayer(FULL, RATE_HZ), SetpointGuard(FULL, RATE_HZ)
    player.reset(HOME, 0.08)
    guard.begin(HOME)
    now_s, here = 0.0, HOME
    for number, ((space, values, strength), wait) in enumerate(zip(turns, periods, strict=False)):
        order: Any = Hold()
        output = answer(space, rows_of(space, values, strength, here))
        try:
            seen = {"joint_position": here.astype(np.float32), "gripper_width": np.array([0.05])}
            chunk, step_s = check_chunk(spaces.in_joints(output, seen, None, 0.4), FULL, 0.4)
        except BadChunk as problem:
            assert problem.refusal.reason and problem.refusal.cause
        else:
            order = Play(chunk, step_s)
        player.order(now_s, OrderId(1, number + 1), order)
        if number == pressed_after:
            player.press_emergency_stop("a test")
        for _ in range(wait):
            now_s += 1 / RATE_HZ
            player.alive(now_s, player.last)
            setpoint = player.update(now_s)
            assert setpoint is not None
            command = guard.check(setpoint)
            assert not isinstance(command, Refusal), command
            here = setpoint.q_rad
        if number >= pressed_after:
            assert player.emergency_stop.latched
    player.press_emergency_stop("a test")
    settled = [player.update(now_s + tick / RATE_HZ) for tick in range(1, 121)]
    assert all(one is not None and not isinstance(guard.check(one), Refusal) for one in settled)
    chunk = np.tile(np.append(here, 0.04), (4, 1))
    assert player.order(now_s + 2, OrderId(1, 99), Play(chunk, STEP_S)) is not None
    still = [player.update(now_s + 2 + tick / RATE_HZ) for tick in range(50)]
    places = np.stack([one.q_rad for one in (*settled[60:], *still) if one is not None])
    assert np.ptp(places, axis=0).max() < 1e-9, "a latched stop does not move"


def rows_of(space: str, values: list[float], strength: float, here: Array) -> Array:
    """Rows of this space, from small ones to such that no arm can follow."""
    columns = SPACES[space].columns(7)
    scale = SCALES[space.partition("_")[0]] * strength
    rows = np.resize(np.array(values), (len(values) // 8, 8))
    body = rows[:, :columns] * scale
    if SPACES[space].mode == "absolute":
        place, orientation = ARM.pose(here)
        body = body + np.concatenate([place, written("axis_angle", orientation)])
    return np.column_stack([body, rows[:, -1]])
