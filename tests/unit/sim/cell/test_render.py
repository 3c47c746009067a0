"""The cameras: what they show follows the seed and the state, whoever rendered what before."""

from __future__ import annotations

import numpy as np
import pytest

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
