"""The simulated cell: it varies by seed, repeats by seed, tracks setpoints and knows how the task stands."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_sim.cell.layout.hardware import cell, panda
from rosa_sim.cell.layout.variation import Variation
from rosa_sim.cell.world import World


@pytest.fixture(scope="module")
def world() -> World:
    return World(0)


def put_cube(world: World, x: float, y: float, z: float) -> None:
    qpos = world.qpos
    at = world.model.joint("block0").qposadr[0]
    qpos[at : at + 3] = x, y, z
    world.set_state(world.seed, qpos)


def test_the_same_seed_gives_the_same_cell_and_another_seed_another(world):
    world.reset(5)
    first = world.qpos
    world.reset(6)
    assert not np.allclose(first, world.qpos)
    world.reset(5)
    np.testing.assert_array_equal(first, world.qpos)


def test_every_cell_can_be_solved_the_cube_is_on_the_mat_and_clear_of_the_distractors():
    for seed in range(300):
        variation = Variation.of(seed)
        assert cell().on_mat(variation.block_xy[0])
        assert 1 <= len(variation.distractors) <= 3
        for xy in variation.distractors.values():
            assert np.linalg.norm(xy - variation.block_xy[0]) > cell().distractors["clearance"]
            assert np.abs(xy - variation.bin_xy[0]).max() > max(cell().bins["inner_half"])


def test_the_arm_stands_at_home_and_follows_a_setpoint(world):
    world.reset(1)
    home = np.array(panda().home_rad)
    np.testing.assert_allclose(world.joint_position, home, atol=1e-6)
    target = home + 0.1
    for share in np.linspace(0, 1, 100):
        world.step(home + share * (target - home), 0.08, 0.01)
    for _ in range(20):
        world.step(target, 0.02, 0.01)
    np.testing.assert_allclose(world.joint_position, target, atol=0.005)
    for _ in range(60):
        world.step(target, 0.02, 0.01)
    assert world.gripper_width == pytest.approx(0.02, abs=0.003)


def test_home_and_safe_pose_are_inside_the_limits():
    limits = panda().limits
    for name in ("home_rad", "safe_rad"):
        q = np.array(getattr(panda(), name))
        assert (q > limits.position_min_rad).all() and (q < limits.position_max_rad).all()


def test_a_fresh_cell_is_ongoing_a_cube_in_the_bin_is_done_and_a_lost_cube_failed(world):
    world.reset(2)
    assert world.outcome() == "ongoing"
    put_cube(world, *world.bin_positions[0], 0.025)
    assert world.outcome() == "done"
    put_cube(world, 0.75, -0.4, 0.021)
    assert world.outcome() == "failed"
    put_cube(world, 0.5, 0.9, -0.4)
    assert world.outcome() == "failed"
    put_cube(world, 0.5, 0.0, 0.021)
    assert world.outcome() == "ongoing"


def test_a_cube_still_in_the_hand_over_the_bin_is_not_done(world):
    world.reset(2)
    put_cube(world, *world.tool_position)
    assert world.outcome() == "ongoing"


def test_bad_numbers_are_refused_before_they_reach_the_physics(world):
    with pytest.raises(ValueError, match="7 finite"):
        world.step([np.nan] * 7, 0.08, 0.01)
    with pytest.raises(ValueError, match="finite positions"):
        world.set_state(0, np.zeros(3))
