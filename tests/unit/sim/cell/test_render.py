"""The cameras: what they show follows the seed and the state, whoever rendered what before."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_sim.cell.layout.variation import CHANGES, Variation, with_camera_moved, with_light
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World


@pytest.fixture
def renderer():
    cameras = SceneRenderer({"front": (96, 96), "wrist": (96, 96), "overview": (160, 120)})
    yield cameras
    cameras.close()


def test_pictures_have_the_asked_size_and_differ_between_seeds_and_states(renderer):
    world = World(0)
    first = renderer.render(0, world.qpos)
    assert first["front"].shape == (96, 96, 3) and first["overview"].shape == (120, 160, 3)
    assert first["front"].dtype == np.uint8
    for camera in ("front", "wrist", "overview"):
        assert first[camera].std() > 10
    for _ in range(30):
        world.step(world.joint_position + 0.05, 0.0, 0.01)
    moved = renderer.render(0, world.qpos)
    other = renderer.render(1, world.qpos)
    assert not np.array_equal(first["front"], moved["front"])
    assert not np.array_equal(moved["front"], other["front"])


def test_a_seed_looks_the_same_after_other_seeds_were_rendered(renderer):
    qpos = World(3).qpos
    before = renderer.render(3, qpos)
    for seed in (4, 5, 6):
        renderer.render(seed, World(seed).qpos)
    after = renderer.render(3, qpos)
    for camera in before:
        np.testing.assert_array_equal(before[camera], after[camera])


def test_an_unknown_camera_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="front, wrist, overview"):
        SceneRenderer({"back": (96, 96)})


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "none"])
def test_a_change_shows_in_the_front_picture_and_leaves_the_next_renderer_alone(renderer, name):
    qpos = World(3).qpos
    plain = renderer.render(3, qpos)["front"]
    changed = SceneRenderer({"front": (96, 96)}, CHANGES[name])
    try:
        assert not np.array_equal(changed.render(3, qpos)["front"], plain)
    finally:
        changed.close()
    np.testing.assert_array_equal(renderer.render(3, qpos)["front"], plain)


def test_half_the_light_halves_the_brightness():
    qpos = World(3).qpos
    means = []
    for factor in (1.0, 0.5):
        renderer = SceneRenderer({"front": (96, 96)}, with_light(factor))
        means.append(renderer.render(3, qpos)["front"].mean())
        renderer.close()
    assert means[1] == pytest.approx(means[0] / 2, rel=0.1)


def test_a_moved_camera_is_moved_by_so_much_and_looks_the_same_way():
    for seed in range(5):
        before, after = Variation.of(seed), with_camera_moved(0.03)(Variation.of(seed))
        shifts = [new - old for new, old in zip(after.cameras["front"], before.cameras["front"], strict=True)]
        assert np.linalg.norm(shifts[0]) == pytest.approx(0.03)
        np.testing.assert_allclose(shifts[0], shifts[1])
        np.testing.assert_array_equal(after.cameras["wrist"][0], before.cameras["wrist"][0])
