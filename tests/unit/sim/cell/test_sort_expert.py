"""The expert sorts by a rule through the same setpoint filter as the robot, and puts down what it holds by mistake."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_server.models.panda.kinematics import inverse_path
from rosa_sim.cell.expert import expert_chunk, free_place
from rosa_sim.cell.layout.hardware import SORT_PARTS
from rosa_sim.cell.rollout import SynchronousArm
from rosa_sim.cell.world import World
from rosa_sim.training.data.words import Subtask, next_subtask, rule_of
from tests.examples import examples


def play(arm: SynchronousArm, world: World, subtask: Subtask) -> None:
    chunk = expert_chunk(world, *subtask)
    joints = inverse_path(chunk[None, :, :3], world.joint_position[None])[0]
    arm.play(np.concatenate([joints, chunk[:, 3:]], axis=1))
    arm.wait()


@pytest.mark.slow
@pytest.mark.prove
def test_it_sorts_at_least_nineteen_of_twenty_cells():
    """The first eight in `make test`: of them, all."""
    world, rng, good, cells = World(0, SORT_PARTS), np.random.default_rng(0), 0, examples(8, 20)
    for seed in range(cells):
        world.reset(seed)
        arm = SynchronousArm(world)
        rule = rule_of(rng.permutation(world.variation.block_colour)[: rng.integers(0, 4)].tolist())
        subtask: Subtask | None = None
        for _ in range(45):
            subtask = next_subtask(rule, world.blocks) or subtask
            assert subtask is not None
            play(arm, world, subtask)
            if world.sorted_by(rule):
                good += 1
                break
    assert good >= 0.95 * cells


def test_it_does_only_what_the_subtask_says():
    world = World(7, SORT_PARTS)
    arm = SynchronousArm(world)
    colour = int(world.variation.block_colour[2])
    others = world.block_positions[:2]
    for _ in range(14):
        play(arm, world, (colour, 1))
    assert world.block_outcome(colour, 1) == "done"
    np.testing.assert_allclose(world.block_positions[:2], others, atol=0.003)


def test_it_puts_the_wrong_block_back_on_the_mat_and_takes_the_right_one():
    world = World(8, SORT_PARTS)
    arm = SynchronousArm(world)
    wrong, right = (int(colour) for colour in world.variation.block_colour[:2])
    for _ in range(14):
        play(arm, world, (wrong, 0))
        if world.block(wrong).place == "hand":
            break
    assert world.block(wrong).place == "hand"
    for _ in range(24):
        play(arm, world, (right, 0))
    assert world.block_outcome(right, 0) == "done"
    assert world.block(wrong).place == "mat"


def test_the_second_block_of_a_bin_gets_a_place_beside_the_first():
    world = World(9, SORT_PARTS)
    first = free_place(world, 0)
    np.testing.assert_allclose(first, world.bin_positions[0])
    qpos = world.qpos
    at = world.model.joint("block0").qposadr[0]
    qpos[at : at + 3] = *first, 0.022
    world.set_state(world.seed, qpos)
    assert np.linalg.norm(free_place(world, 0) - first) > 0.05
    np.testing.assert_allclose(free_place(world, 1), world.bin_positions[1])
