"""Rotations as others write them, and an arm's tool: where it is and how it gets there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_contract.config.adapter import ROTATIONS
from rosa_contract.config.robot import load_robot
from rosa_contract.kinematics.arm import Arm, UnreachableError
from rosa_contract.rotations import SIZES, matrix, written

PANDA = load_robot("configs/robots/panda.yaml")
assert PANDA.chain is not None
ARM = Arm(PANDA.chain, PANDA.limits.position_min_rad, PANDA.limits.position_max_rad)
HOME = np.array(PANDA.home_rad)
angle = st.floats(-3.1, 3.1)


@settings(max_examples=100)
@given(turn=st.tuples(angle, angle, angle), name=st.sampled_from(ROTATIONS))
def test_a_rotation_goes_there_and_back(turn: tuple[float, float, float], name: str) -> None:
    rotation = matrix("rpy", np.array(turn))
    told = written(name, rotation)
    assert told.shape == (SIZES[name],)
    assert matrix(name, told) == pytest.approx(rotation, abs=1e-7)


def test_known_rotations() -> None:
    quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # about z
    half = np.sqrt(0.5)
    told = {name: written(name, quarter).tolist() for name in ROTATIONS}
    assert told["axis_angle"] == pytest.approx([0, 0, np.pi / 2])
    assert told["rpy"] == pytest.approx([0, 0, np.pi / 2])
    assert told["quaternion_xyzw"] == pytest.approx([0, 0, half, half])
    assert told["quaternion_wxyz"] == pytest.approx([half, 0, 0, half])
    assert told["rotation_6d"] == pytest.approx([0, -1, 0, 1, 0, 0])
    assert written("rpy", matrix("rpy", np.array([0.1, -0.2, 0.3]))) == pytest.approx([0.1, -0.2, 0.3])


def test_a_path_of_the_tool_is_reached_row_by_row_within_the_limits() -> None:
    position, rotation = ARM.pose(HOME)
    steps = np.linspace([0, 0, 0], [0.05, -0.1, -0.08], 12)
    turns = np.stack(
        [matrix("rpy", np.array([0.0, 0.0, 0.3 * share])) @ rotation for share in np.linspace(0, 1, 12)]
    )
    path = ARM.along(HOME, position + steps, turns)
    assert path.shape == (12, 7)
    assert (path >= ARM.min_rad).all() and (path <= ARM.max_rad).all()
    for row, (wanted, turn) in enumerate(zip(position + steps, turns, strict=True)):
        got = ARM.pose(path[row])
        assert got[0] == pytest.approx(wanted, abs=1e-3) and got[1] == pytest.approx(turn, abs=1e-2)
    assert np.abs(np.diff(path, axis=0)).max() < 0.2, "no row jumps to another elbow"


def test_a_place_out_of_reach_is_refused_and_its_row_named() -> None:
    position, rotation = ARM.pose(HOME)
    places = np.stack([position, position + np.array([2.0, 0.0, 0.0])])
    with pytest.raises(UnreachableError, match=r"row 1: the tool cannot be at \(2\.\d+"):
        ARM.along(HOME, places, np.stack([rotation, rotation]))
