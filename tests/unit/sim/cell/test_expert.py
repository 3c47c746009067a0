"""The expert solves the cell through the same setpoint filter as the robot, and from a disturbed state too."""

from __future__ import annotations

import numpy as np

from rosa_server.models.panda.kinematics import inverse_path
from rosa_sim.cell.expert import expert_chunk, home_position
from rosa_sim.cell.rollout import SynchronousArm
from rosa_sim.cell.world import World


def solve(world: World, rounds: int) -> str:
    arm = SynchronousArm(world)
    for _ in range(rounds):
        chunk = expert_chunk(world)
        joints = inverse_path(chunk[None, :, :3], world.joint_position[None])[0]
        arm.play(np.concatenate([joints, chunk[:, 3:]], axis=1))
        arm.wait()
        if world.outcome() != "ongoing":
            break
    return world.outcome()


def test_it_puts_the_cube_into_the_bin():
    world = World(11)
    assert solve(world, 20) == "done"


def test_it_picks_the_cube_up_from_where_it_was_moved_to():
    world = World(12)
    solve(world, 3)
    qpos = world.qpos
    at = world.model.joint("block0").qposadr[0]
    qpos[at : at + 3] = 0.45, -0.15, 0.021
    qpos[7:9] = 0.0  # and the gripper is closed
    world.set_state(12, qpos)
    assert solve(world, 25) == "done"


def test_with_the_cube_in_the_bin_it_goes_home():
    world = World(13)
    solve(world, 20)
    for _ in range(5):
        chunk = expert_chunk(world)
        arm = SynchronousArm(world)
        joints = inverse_path(chunk[None, :, :3], world.joint_position[None])[0]
        arm.play(np.concatenate([joints, chunk[:, 3:]], axis=1), executed_steps=16)
        arm.wait(0.3)
    np.testing.assert_allclose(world.tool_position, home_position(), atol=0.01)
    assert world.outcome() == "done"
