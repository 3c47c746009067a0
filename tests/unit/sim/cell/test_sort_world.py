"""The sorting cell: it varies by seed as its file says, and knows how each subtask stands."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_sim.cell.layout.draws import spaced
from rosa_sim.cell.layout.hardware import SORT_PARTS, cell
from rosa_sim.cell.layout.variation import Variation
from rosa_sim.cell.world import World


@pytest.fixture(scope="module")
def world() -> World:
    return World(0, SORT_PARTS)


def put(world: World, number: int, x: float, y: float, z: float) -> None:
    qpos = world.qpos
    at = world.model.joint(world.layout.block_names[number]).qposadr[0]
    qpos[at : at + 3] = x, y, z
    world.set_state(world.seed, qpos)


def test_every_cell_has_three_blocks_of_different_colours_on_the_mat_with_room_for_the_fingers():
    c, seen = cell(SORT_PARTS), set()
    for seed in range(300):
        variation = Variation.of(seed, SORT_PARTS)
        assert len(set(variation.block_colour)) == 3
        assert spaced(variation.block_xy, c)
        assert all(c.on_mat(xy) for xy in variation.block_xy)
        assert variation.bin_xy[0, 1] > 0 > variation.bin_xy[1, 1]
        seen |= set(variation.block_colour)
    assert seen == set(range(len(c.colours)))


def test_the_light_goes_down_to_a_quarter_and_the_camera_moves_by_up_to_three_centimetres():
    cells = [Variation.of(seed, SORT_PARTS) for seed in range(300)]
    headlight = [one.headlight for one in cells]
    assert 0.25 * 0.3 <= min(headlight) < 0.09 and 0.27 < max(headlight) <= 0.3
    front = np.array(cell(SORT_PARTS).cameras["front"]["position"])
    shifts = [np.linalg.norm(one.cameras["front"][0] - front) for one in cells]
    assert 0.025 < max(shifts) <= 0.03


def test_the_same_seed_gives_the_same_cell(world):
    world.reset(5)
    first = world.qpos
    world.reset(6)
    assert not np.allclose(first, world.qpos)
    world.reset(5)
    np.testing.assert_array_equal(first, world.qpos)


def test_a_subtask_is_done_in_its_bin_failed_in_the_other_one_or_off_the_mat_and_else_ongoing(world):
    world.reset(2)
    colour = int(world.variation.block_colour[1])
    assert world.block_outcome(colour, 0) == world.block_outcome(colour, 1) == "ongoing"
    put(world, 1, *world.bin_positions[0], 0.022)
    assert world.block_outcome(colour, 0) == "done"
    assert world.block_outcome(colour, 1) == "failed"
    put(world, 1, 0.75, 0.0, 0.02)
    assert world.block_outcome(colour, 0) == "failed"
    put(world, 1, 0.5, 0.9, -0.4)
    assert world.block_outcome(colour, 0) == "failed"


def test_a_block_in_the_hand_over_its_bin_is_not_done(world):
    world.reset(2)
    put(world, 1, *world.tool_position)
    assert world.block_outcome(int(world.variation.block_colour[1]), 0) == "ongoing"


def test_a_cell_is_sorted_when_every_block_is_where_the_rule_says(world):
    world.reset(3)
    colours = [int(colour) for colour in world.variation.block_colour]
    rule = 1 << colours[0]
    for number, (bin_id, offset) in enumerate([(0, 0.0), (1, -0.05), (1, 0.05)]):
        assert not world.sorted_by(rule)
        x, y = world.bin_positions[bin_id]
        put(world, number, x + offset, y, 0.022)
    assert world.sorted_by(rule)
    assert not world.sorted_by(rule | 1 << colours[1])


def test_a_question_about_a_colour_that_the_cell_does_not_have_is_refused(world):
    world.reset(3)
    absent = next(colour for colour in range(8) if colour not in world.variation.block_colour)
    with pytest.raises(ValueError, match="no block of colour"):
        world.block_outcome(absent, 0)


def test_a_hand_in_the_workcell_is_unsafe_and_beside_it_safe(world):
    world.reset(4)
    assert world.hand_position is None and world.safe
    hand = world.variation.hand
    world.place_hand(hand.inside)
    assert not world.safe
    world.place_hand(hand.outside)
    assert world.hand_position is not None and world.safe
    world.place_hand(None)
    assert world.hand_position is None


def test_a_visitor_comes_in_stays_and_leaves_and_touches_nothing():
    seed = next(seed for seed in range(50) if np.isfinite(Variation.of(seed, SORT_PARTS).hand.start_s))
    world = World(seed, SORT_PARTS, visits=True)
    hand = world.variation.hand
    blocks = world.block_positions
    safe = []
    while world.data.time < hand.start_s + hand.stay_s + 2.5:
        world.step(world.variation.initial_qpos(world.model)[:7], 0.08, 0.05)
        safe.append(world.safe)
    assert safe[0] and safe[-1]
    unsafe_s = 0.05 * safe.count(False)
    assert hand.stay_s - 0.1 < unsafe_s < hand.stay_s + 1.7
    np.testing.assert_allclose(world.block_positions, blocks, atol=0.002)


def test_without_visits_nobody_comes_in(world):
    seed = next(seed for seed in range(50) if np.isfinite(Variation.of(seed, SORT_PARTS).hand.start_s))
    world.reset(seed)
    world.step(world.joint_position, 0.08, world.variation.hand.start_s + 1.0)
    assert world.hand_position is None
