"""Robots that nobody has modelled move in physics as their files say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_client.drivers.arms import create_arm
from rosa_client.motion.action_space import ActionSpaces
from rosa_client.motion.arm_orders import Command, OrderId, Play
from rosa_client.motion.chunk_check import BadChunk, check_chunk
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.refusal import Refusal
from rosa_client.motion.setpoint_guard import SetpointGuard
from rosa_contract.config.robot import load_robot
from rosa_contract.kinematics.chain import Chain
from rosa_contract.wire.messages import Output
from rosa_sim.bodies import Body, mjcf, tried
from tests.unit.client.motion.test_other_bodies import answered, seen

ROBOTS = Path(__file__).parents[3] / "configs" / "robots"


@pytest.mark.parametrize(("name", "arms"), [("so101", 1), ("bimanual_ur5e", 2), ("fr3", 1)])
def test_every_pose_is_reached_within_every_limit(name: str, arms: int) -> None:
    robot = replace(load_robot(ROBOTS / f"{name}.yaml"), velocity_scale=1.0)
    said = tried(robot)
    assert [line.partition(":")[0] for line in said] == list(robot.poses)
    for line in said:
        assert line.count("mm from its chain") == arms
        assert float(line.partition(" rad off")[0].rpartition(" ")[2]) < 0.01


DRIVEN = {name: load_robot(ROBOTS / f"{name}.yaml") for name in ("so101", "bimanual_ur5e", "ur5e", "fr3")}
ALL_SPACES = [(name, space) for name, robot in DRIVEN.items() for space in ("actions", *robot.spaces)]
STEP_S, TRACKING_RAD = 0.05, 0.02


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    which=st.sampled_from(ALL_SPACES),
    turns=st.lists(
        st.tuples(
            st.lists(st.floats(-1.0, 1.0, width=32), min_size=14, max_size=56),
            st.sampled_from([0.3, 1.0, 20.0]),
            st.integers(5, 60),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_answers_in_every_space_move_every_arm_within_its_limits_in_physics(which: Any, turns: Any) -> None:
    """What is answered is about where the arm is measured to be. At the end the stop is pressed, and it stands."""
    name, space = which
    robot = DRIVEN[name]
    body, limits, rate_hz = Body(robot), MotionLimits.of(robot), 100.0
    spaces, player, guard = ActionSpaces(robot), ChunkPlayer(limits, rate_hz), SetpointGuard(limits, rate_hz)
    player.reset(body.joint_position, body.gripper_widths)
    guard.begin(body.joint_position)
    low, high = (np.array(one) for one in (robot.limits.position_min_rad, robot.limits.position_max_rad))
    fastest = np.array(robot.limits.velocity_rad_s)
    now_s = 0.0

    def period() -> None:
        nonlocal now_s
        now_s += 1 / rate_hz
        player.alive(now_s, player.last)
        setpoint = player.update(now_s)
        assert setpoint is not None
        command = guard.check(setpoint)
        assert not isinstance(command, Refusal), command
        body.step(command.q_rad, command.gripper_m, 1 / rate_hz)
        here = body.joint_position
        assert np.abs(here - command.q_rad).max() < TRACKING_RAD, "the arm is where it was told to be"
        assert (here > low - TRACKING_RAD).all() and (here < high + TRACKING_RAD).all()
        assert (np.abs(body.joint_velocity) < 1.2 * fastest).all()

    for number, (values, strength, periods) in enumerate(turns):
        here = body.joint_position
        rows = {
            space: answered(robot, space, values, strength, here),
            "step_s": np.array([STEP_S], np.float32),
        }
        try:
            chunk, step_s = check_chunk(
                spaces.in_joints(Output(rows), seen(robot, here), None, 0.4), limits, 0.4
            )
        except BadChunk as problem:
            assert problem.refusal.cause
        else:
            player.order(now_s, OrderId(1, number + 1), Play(chunk, step_s))
        for _ in range(periods):
            period()
    player.press_emergency_stop("a test")
    for _ in range(120):
        period()
    before = body.joint_position
    for _ in range(30):
        period()
    assert body.joint_position == pytest.approx(before, abs=1e-3)


def test_the_driver_takes_each_arm_and_each_gripper_to_its_own_place() -> None:
    pair = load_robot(ROBOTS / "bimanual_ur5e.yaml")
    arm = create_arm("mujoco_body", pair, 0)
    q_rad, widths = np.array(pair.home_rad), np.array([0.02, 0.07])
    start = arm.read().q_rad
    q_rad[6] += 0.1
    for share in np.linspace(0.01, 1.0, 100):
        at = start + share * (q_rad - start)
        arm.track(Command(at, np.zeros(12), at, 0.0, widths, 0.01))
    for _ in range(100):
        arm.track(Command(q_rad, np.zeros(12), q_rad, 0.0, widths, 0.01))
    state = arm.read()
    assert state.q_rad == pytest.approx(q_rad, abs=2e-3)
    assert state.gripper_m == pytest.approx(widths, abs=1e-3)
    arm.idle(0.01)
    assert arm.read().q_rad == pytest.approx(q_rad, abs=2e-3), "without a command it stays"
    arm.close()


def test_a_tool_is_where_the_chain_says_in_any_pose() -> None:
    robot = load_robot(ROBOTS / "so101.yaml")
    (limb,) = robot.limbs
    assert limb.chain is not None
    for q_rad in np.random.default_rng(3).uniform(-1.5, 1.5, (10, 5)):
        body = Body(replace(robot, home_rad=tuple(q_rad)))
        assert body.tool_m(limb) == pytest.approx(Chain(limb.chain).tool(q_rad), abs=1e-6)


def test_an_arm_without_links_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="panda: chain: expected the links of arm panda"):
        mjcf(replace(load_robot(ROBOTS / "panda.yaml"), chain=None, workspace=None))
