"""The scenes: one is asked for by name."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_sim.cell.layout.hardware import cell
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.scene import load_model


def test_an_unknown_scene_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="pick_place, sort_parts"):
        cell("kitchen")


def test_a_renderer_draws_the_scene_that_it_was_made_for():
    model = load_model("sort_parts")
    assert model.nq == 33
    renderer = SceneRenderer({"front": (96, 96)}, scene="sort_parts")
    try:
        assert renderer.render(0, model.qpos0)["front"].std() > 5
        with pytest.raises(ValueError, match="expected qpos of shape"):
            renderer.render(0, np.zeros(37))
    finally:
        renderer.close()
