"""Robots that nobody has modelled move in physics as their files say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rosa_client.drivers.arms import create_arm
from rosa_client.motion.arm_orders import Command
from rosa_contract.config.robot import load_robot
from rosa_contract.kinematics.chain import Chain
from rosa_sim.bodies import Body, mjcf, tried

ROBOTS = Path(__file__).parents[3] / "configs" / "robots"


@pytest.mark.parametrize(("name", "arms"), [("so101", 1), ("bimanual_ur5e", 2), ("fr3", 1)])
def test_every_pose_is_reached_within_every_limit(name: str, arms: int) -> None:
    robot = replace(load_robot(ROBOTS / f"{name}.yaml"), velocity_scale=1.0)
    said = tried(robot)
    assert [line.partition(":")[0] for line in said] == list(robot.poses)
    for line in said:
        assert line.count("mm from its chain") == arms
        assert float(line.partition(" rad off")[0].rpartition(" ")[2]) < 0.01


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
