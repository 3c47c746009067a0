"""Labels of looks: pixels fall on what they name, plans and verdicts agree with the world, hands are seen."""

from __future__ import annotations

import colorsys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rosa_sim.cell.layout.hand import draw_hand
from rosa_sim.cell.layout.hardware import PICK_PLACE, SORT_PARTS, cell
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.training.data import collect, looks
from rosa_sim.training.data.looks import HAND, LookRecorder, keypoints, marks, pixels
from rosa_sim.training.data.moves import RECIPES
from rosa_sim.training.data.pictures import POLICY_CAMERAS
from rosa_sim.training.data.words import COLOURS

VIVID = [COLOURS.index(name) for name in ("red", "yellow", "green", "blue", "purple")]


@pytest.fixture(scope="module")
def renderer():
    cameras = SceneRenderer(POLICY_CAMERAS, scene=SORT_PARTS)
    yield cameras
    cameras.close()


def test_the_pixel_of_a_vivid_block_has_its_hue_in_both_cameras(renderer):
    world, checked = World(0, SORT_PARTS), {"front": 0, "wrist": 0}
    for seed in range(30):
        world.reset(seed)
        pictures = renderer.render(seed, world.qpos)
        for camera, picture in pictures.items():
            points = pixels(renderer.model, renderer.data, camera, keypoints(world))
            for number, colour in enumerate(world.variation.block_colour):
                u, v, visible = points[colour]
                if colour not in VIVID or not visible:
                    continue
                drawn = colorsys.rgb_to_hsv(*picture[int(v * 96), int(u * 96)] / 255)
                paint = colorsys.rgb_to_hsv(*world.variation.paint[f"block{number}"])
                assert abs((drawn[0] - paint[0] + 0.5) % 1.0 - 0.5) < 0.04, (seed, camera, COLOURS[colour])
                checked[camera] += 1
    assert checked["front"] > 40 and checked["wrist"] > 20


def test_a_block_behind_the_palm_or_out_of_the_picture_is_not_visible(renderer):
    world = World(1, SORT_PARTS)
    colour = int(world.variation.block_colour[0])
    renderer.render(1, world.qpos)
    assert pixels(renderer.model, renderer.data, "front", keypoints(world))[colour, 2] == 1
    position, _ = world.variation.cameras["front"]
    hand = world.variation.hand
    palm_to_tip = 0.125 * np.array([*(np.cos(hand.pitch) * hand.way_in), -np.sin(hand.pitch)])
    world.place_hand(world.block_positions[0] + 0.3 * (position - world.block_positions[0]) + palm_to_tip)
    renderer.render(1, world.qpos)
    assert pixels(renderer.model, renderer.data, "front", keypoints(world))[colour, 2] == 0
    behind = np.array([[2.0, 0.0, 1.0], [0.5, 3.0, 0.0]])
    assert not pixels(renderer.model, renderer.data, "front", behind)[:, 2].any()


def test_a_hand_whose_tip_is_hidden_is_where_its_foremost_visible_part_is(renderer):
    world = World(1, SORT_PARTS)
    position, _ = world.variation.cameras["front"]
    hand = world.variation.hand
    # Flat on the table, the palm over the front edge: the block stands on the camera's way to the tip.
    at = world.qpos
    tip = np.array([0.45, 0.0, 0.01])
    joint = world.model.joint("block0").qposadr[0]
    at[joint : joint + 3] = tip + 0.06 * (position - tip) / np.linalg.norm(position - tip)
    world.set_state(1, at)
    world.place_hand(tip)
    renderer.render(1, world.qpos)
    points = keypoints(world)
    bare = pixels(renderer.model, renderer.data, "front", points)[HAND]
    marked = marks(renderer.model, renderer.data, "front", points)[HAND]
    assert not bare[2] and marked[2]
    backwards = np.array([*(-hand.way_in * np.cos(hand.pitch)), np.sin(hand.pitch)])
    behind = [tip + along * backwards for along in looks.HAND_PARTS_M]
    places = pixels(renderer.model, renderer.data, "front", np.array(behind))[:, :2]
    assert np.abs(places[1:] - marked[:2]).sum(axis=1).min() < 1e-6

    world.place_hand(tip + np.array([0.0, 0.12, 0.1]))
    renderer.render(1, world.qpos)
    points = keypoints(world)
    assert marks(renderer.model, renderer.data, "front", points)[HAND, 2] == 1
    np.testing.assert_allclose(
        marks(renderer.model, renderer.data, "front", points)[HAND],
        pixels(renderer.model, renderer.data, "front", points)[HAND],
    )
    world.place_hand(np.array([2.5, 0.0, 0.3]))
    renderer.render(1, world.qpos)
    assert marks(renderer.model, renderer.data, "front", keypoints(world))[HAND, 2] == 0


def test_no_keypoint_is_given_for_what_the_cell_does_not_have():
    world = World(2, SORT_PARTS)
    points = keypoints(world)
    absent = [colour for colour in range(8) if colour not in world.variation.block_colour]
    assert np.isnan(points[absent]).all() and np.isnan(points[10]).all()
    assert np.isfinite(points[[*world.variation.block_colour, 8, 9, 11]]).all()


def test_a_hand_is_never_seen_so_near_the_edge_that_no_picture_says_on_which_side():
    rng = np.random.default_rng(0)
    world, sides = World(0, SORT_PARTS), {True: 0, False: 0}
    zone = cell(SORT_PARTS).workcell
    for _ in range(500):
        hand = draw_hand(rng, cell(SORT_PARTS))
        place = looks.hand_place(cell(SORT_PARTS), hand.inside, hand.way_in, rng)
        gaps = [min(place[i] - zone[axis][0], zone[axis][1] - place[i]) for i, axis in enumerate("xy")]
        assert abs(min(gaps)) > 0.02
        world.place_hand(place)
        sides[world.safe] += 1
    assert sides[True] > 80 and sides[False] > 250


@pytest.mark.slow
def test_a_shard_agrees_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    short = replace(RECIPES[SORT_PARTS], episodes_per_shard=2, looks_per_episode=30)
    monkeypatch.setitem(RECIPES, SORT_PARTS, short)
    data = dict(np.load(collect.collect_shard(tmp_path, SORT_PARTS, 100_000)))
    count = len(data["seed"])
    assert data["front"].shape == data["wrist"].shape == (count, 96, 96, 3)
    assert data["chunk"].shape == (count, 16, 4) and data["pixels_front"].shape == (count, 12, 3)
    for name, shape in (("plan", (2,)), ("block_xyz", (3, 3)), ("block_colour", (3,)), ("bin_xy", (2, 2))):
        assert data[name].shape == (count, *shape)
    for row in range(count):
        assert data["colour"][row] in data["block_colour"][row]
        colour, side = data["plan"][row]
        if colour >= 0:
            assert side == (0 if data["rule"][row] >> colour & 1 else 1)
        if np.isnan(data["hand_xyz"][row]).any():
            assert data["safe"][row]
        if data["outcome"][row] == 1:
            number = list(data["block_colour"][row]).index(data["colour"][row])
            off = np.abs(data["block_xyz"][row, number, :2] - data["bin_xy"][row, data["bin"][row]])
            assert off[0] < 0.1 and off[1] < 0.06
    assert set(data["outcome"]) == {0, 1, 2}
    assert not data["safe"].all()


@pytest.mark.slow
def test_a_shard_of_the_cell_with_one_block_is_labelled_the_same_way_without_rules_and_hands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    short = replace(RECIPES[PICK_PLACE], episodes_per_shard=2, looks_per_episode=30)
    monkeypatch.setitem(RECIPES, PICK_PLACE, short)
    data = dict(np.load(collect.collect_shard(tmp_path, PICK_PLACE, 100_000)))
    count = len(data["seed"])
    assert data["front"].shape == data["wrist"].shape == (count, 96, 96, 3)
    assert data["block_xyz"].shape == (count, 1, 3) and data["bin_xy"].shape == (count, 1, 2)
    assert not {"rule", "plan", "safe", "hand_xyz", "pixels_front"} & set(data)
    assert not data["colour"].any() and not data["bin"].any()
    assert set(data["outcome"]) == {0, 1, 2}
    off = np.abs(data["block_xyz"][:, 0, :2] - data["bin_xy"][:, 0]).max(axis=1)
    assert (off[data["outcome"] == 1] < 0.075).all() and (off[data["outcome"] == 2] > 0.075).all()
    assert data["settled"].sum() > 60 and not data["settled"].all()


@pytest.mark.slow
def test_a_shard_of_hands_shows_cells_of_its_own_most_of_them_with_a_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(collect, "HAND_LOOKS_PER_SHARD", 40)
    data = dict(np.load(collect.collect_shard(tmp_path, SORT_PARTS, collect.HAND_SEED)))
    assert len(data["seed"]) == len(set(data["seed"].tolist())) == 40
    assert 20 <= np.isfinite(data["hand_xyz"][:, 0]).sum() <= 36
    assert data["settled"].all()


def test_the_recorder_takes_its_hand_away_again(renderer):
    world = World(3, SORT_PARTS)
    recorder = LookRecorder(world, renderer, np.random.default_rng(0))
    for _ in range(8):
        recorder.record((int(world.variation.block_colour[0]), 0), 0, settled=True)
        assert world.hand_position is None
    assert any(not row["safe"] for row in recorder.rows)
