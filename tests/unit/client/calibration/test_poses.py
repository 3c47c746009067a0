"""Planned poses keep every limit of the robot file, look from all sides, and follow each other with little travel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rosa_client.calibration.errors import CalibrationError
from rosa_client.calibration.poses import FARTHEST_RAD, MARGIN_RAD, poses_around
from rosa_client.motion.limits import MotionLimits
from rosa_contract.config.robot import WorkspaceSpec
from tests.unit.client.calibration.scenes import CHAIN, SPEC

START = np.array(SPEC.home_rad)
DISTANCE_M = 0.38


@pytest.mark.parametrize("seed", range(5))
def test_every_pose_and_every_path_is_within_the_limits(seed: int) -> None:
    poses = poses_around(SPEC, SPEC.home_rad, DISTANCE_M, seed=seed)
    limits, here = MotionLimits.of(SPEC), START
    for q in poses:
        assert limits.refusal([[*q, 0.08]], "pose", here) is None
        assert (q >= np.array(SPEC.limits.position_min_rad) + MARGIN_RAD).all()
        assert (q <= np.array(SPEC.limits.position_max_rad) - MARGIN_RAD).all()
        assert np.abs(q - START).max() < FARTHEST_RAD
        here = q


def test_the_board_stays_before_the_hand_and_is_seen_from_all_sides() -> None:
    hands = CHAIN.hand(poses_around(SPEC, SPEC.home_rad, DISTANCE_M))
    board = (CHAIN.hand(START) @ np.array([0.0, 0.0, DISTANCE_M, 1.0]))[:3]
    aimed = hands[:, :3, 3] + DISTANCE_M * hands[:, :3, 2]
    assert np.linalg.norm(aimed - board, axis=1).max() < 0.11, "as far as it is shifted, and no farther"
    tilts = np.arccos(hands[:, :3, 2] @ CHAIN.hand(START)[:3, 2])
    assert tilts.min() > 0.1 and tilts.max() > 0.35
    sides = hands[:, :3, 2] @ CHAIN.hand(START)[:3, :2]
    assert (sides.min(axis=0) < -0.1).all() and (sides.max(axis=0) > 0.1).all()


def test_the_order_is_shorter_than_chance() -> None:
    poses = poses_around(SPEC, SPEC.home_rad, DISTANCE_M)
    shuffled = np.random.default_rng(0).permutation(poses)
    travel = [np.abs(np.diff(one, axis=0)).max(axis=1).sum() for one in (poses, shuffled)]
    assert travel[0] < travel[1]


def test_equal_seeds_give_equal_poses() -> None:
    assert np.array_equal(poses_around(SPEC, START, 0.3, seed=3), poses_around(SPEC, START, 0.3, seed=3))


def test_a_workspace_without_room_is_an_error() -> None:
    tool = CHAIN.points(START)
    box = WorkspaceSpec(tuple(tool.min(axis=0) - 0.005), tuple(tool.max(axis=0) + 0.005))
    with pytest.raises(CalibrationError) as refused:
        poses_around(replace(SPEC, workspace=box), START, DISTANCE_M)
    assert refused.value.cause == "degenerate"
    assert "guide the arm by hand" in str(refused.value)


def test_a_robot_without_link_lengths_is_guided_by_hand() -> None:
    with pytest.raises(CalibrationError):
        poses_around(replace(SPEC, chain=None, workspace=None), START, DISTANCE_M)
