"""Units and grippers go there and back, and every convention agrees on what is open and what is closed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_contract.config.conventions import (
    FINGER_PAIR,
    GRIPPERS,
    UNITS,
    from_unit,
    gripper_from,
    gripper_in,
    in_unit,
    swapped,
)

ORDERED = sorted(set(GRIPPERS) - {FINGER_PAIR})
numbers = st.floats(-1e3, 1e3)
share = st.floats(0.0, 1.0)


@given(values=st.lists(numbers, min_size=1, max_size=8), unit=st.sampled_from(sorted(UNITS)))
def test_a_unit_goes_there_and_back(values: list[float], unit: str) -> None:
    assert from_unit(in_unit(values, unit), unit) == pytest.approx(values, abs=1e-9)


@given(
    closed_m=st.floats(0.0, 0.05), travel_m=st.floats(0.01, 0.2), opened=share, name=st.sampled_from(ORDERED)
)
def test_a_gripper_goes_there_and_back(closed_m: float, travel_m: float, opened: float, name: str) -> None:
    width = [closed_m + opened * travel_m]
    there = gripper_in(name, width, closed_m, closed_m + travel_m)
    assert gripper_from(name, there, closed_m, closed_m + travel_m) == pytest.approx(width, abs=1e-9)


@given(opened=share, name=st.sampled_from(ORDERED))
def test_beyond_its_ends_a_gripper_is_at_its_end(opened: float, name: str) -> None:
    ends = GRIPPERS[name] or (0.0, 0.08)
    beyond = ends[1] + (ends[1] - ends[0]) * opened
    assert gripper_from(name, [beyond], 0.0, 0.08) == pytest.approx([0.08])
    assert gripper_in(name, [0.08 + opened], 0.0, 0.08) == pytest.approx([ends[1]])


@pytest.mark.parametrize(
    ("name", "closed", "opened"),
    [
        ("width", 0.0, 0.08),
        ("open_fraction", 0.0, 1.0),
        ("closed_fraction", 1.0, 0.0),
        ("open_percent", 0.0, 100.0),
        ("closed_percent", 100.0, 0.0),
        ("open_sign", -1.0, 1.0),
        ("closed_sign", 1.0, -1.0),
    ],
)
def test_what_each_convention_calls_closed_and_open(name: str, closed: float, opened: float) -> None:
    assert gripper_in(name, [0.0], 0.0, 0.08) == pytest.approx([closed])
    assert gripper_in(name, [0.08], 0.0, 0.08) == pytest.approx([opened])


@given(value=st.floats(0.0, 1.0))
def test_a_binary_gripper_is_closed_or_open(value: float) -> None:
    [width] = gripper_from("closed_fraction", [value], 0.01, 0.07, binary=True)
    assert width == (0.07 if 1 - value >= 0.5 else 0.01)


def test_what_is_no_number_closes_no_binary_gripper() -> None:
    assert np.isnan(gripper_from("closed_fraction", [np.nan], 0.01, 0.07, binary=True)).all()


def test_a_pair_of_fingers_is_half_the_width_each_and_cannot_be_ordered() -> None:
    assert gripper_in(FINGER_PAIR, [0.06], 0.0, 0.08).tolist() == [0.03, -0.03]
    with pytest.raises(ValueError, match="one width"):
        gripper_from(FINGER_PAIR, [0.03], 0.0, 0.08)


def test_degrees_are_degrees_and_millimetres_are_millimetres() -> None:
    assert in_unit([math.pi], "deg") == pytest.approx([180.0])
    assert from_unit([250.0], "mm") == pytest.approx([0.25])
    assert in_unit([1.5], "") == pytest.approx([1.5]), "no unit: as it is"


def test_swapping_the_colours_twice_changes_nothing() -> None:
    picture = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert swapped(picture)[0, 0].tolist() == [2, 1, 0]
    assert (swapped(swapped(picture)) == picture).all()
