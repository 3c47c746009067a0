"""The scenes: one is asked for by name, and the second left the first as it was."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from rosa_sim.cell.hardware import cell
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.scene import ensure_scene_cache, load_model, scene_xml

# Of the XML before there was a second scene; the same XML compiles to the same model.
PICK_PLACE_XML_SHA256 = "957e43d8c40f0033e2f0bf7cc8526be20405a580d268fd35188cbd97e644cbb1"


def test_the_pick_and_place_model_is_what_it_was_before_there_was_a_second_scene():
    xml = scene_xml().replace(str(ensure_scene_cache()), "MESHES")
    assert hashlib.sha256(xml.encode()).hexdigest() == PICK_PLACE_XML_SHA256
    assert load_model().nq == 37


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
