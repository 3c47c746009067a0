"""Which block the sorting cell's model is asked for in the pick-and-place cell."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

from rosa_sim.training.data.words import COLOURS
from rosa_sim.training.judge.one_model import nearest_colour


@pytest.mark.parametrize(
    ("hue", "name"),
    [(0.98, "red"), (0.0, "red"), (0.12, "yellow"), (0.4, "green"), (0.6, "blue"), (0.85, "purple")],
)
def test_a_cube_is_called_by_the_name_whose_hues_are_nearest(hue: float, name: str) -> None:
    assert COLOURS[nearest_colour(np.array(colorsys.hsv_to_rgb(hue, 0.9, 0.8)))] == name
