"""The link that a camera is fixed to says what moves: every frame is that of the robot's description."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rosa_client.calibration.errors import CalibrationError
from rosa_client.calibration.mounting import mounting_of
from tests.unit.client.calibration.scenes import CHAIN, SPEC

Q = np.array(SPEC.home_rad)


@pytest.mark.parametrize(
    ("parent", "on_hand"),
    [
        ("panda_link0", False),
        ("base_link", False),
        ("fr3_link8", True),
        ("panda_hand", True),
        ("hand", True),
        ("fr3_hand_tcp", True),
        ("panda_tool", True),
    ],
)
def test_links(parent: str, on_hand: bool) -> None:
    assert mounting_of(SPEC, "wrist", parent).on_hand == on_hand


def test_without_a_parent_it_is_that_of_the_robot_file() -> None:
    assert mounting_of(SPEC, "front").parent == "panda_link0"
    assert mounting_of(SPEC, "wrist").parent == "panda_hand"


def test_the_frames_of_flange_hand_and_tool() -> None:
    """The hand is turned by -45 degrees on the flange, and the tool is 0.1034 m before it."""
    flange, hand, tool = (
        mounting_of(SPEC, "wrist", link).base_parent(Q)
        for link in ("panda_link8", "panda_hand", "panda_hand_tcp")
    )
    turn = np.linalg.inv(flange) @ hand
    assert turn[:3, 3] == pytest.approx(0.0, abs=1e-12)
    assert np.arctan2(turn[1, 0], turn[0, 0]) == pytest.approx(-np.pi / 4)
    assert (np.linalg.inv(hand) @ tool)[:3, 3] == pytest.approx((0.0, 0.0, 0.1034))
    names = dict(zip(CHAIN.names, CHAIN.points(Q), strict=True))
    assert flange[:3, 3] == pytest.approx(names["flange"])
    assert tool[:3, 3] == pytest.approx(names["tool"])


def test_a_fixed_camera_looks_at_the_hand() -> None:
    assert np.array_equal(mounting_of(SPEC, "front").base_parent(Q), CHAIN.hand(Q))


def test_what_cannot_be_told() -> None:
    with pytest.raises(CalibrationError):
        mounting_of(SPEC, "wrist", "moon")
    with pytest.raises(CalibrationError):
        mounting_of(replace(SPEC, chain=None), "wrist")
    bare = replace(SPEC, cameras={"wrist": replace(SPEC.cameras["wrist"], pose=None)})
    with pytest.raises(CalibrationError) as refused:
        mounting_of(bare, "wrist")
    assert "--parent" in str(refused.value)
