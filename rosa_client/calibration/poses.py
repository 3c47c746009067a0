"""Poses from which to look at the board: around where the arm stands now, within every limit of the robot file.

The hand turns about a point before it: that of the board for a camera on the hand, that of the hand itself when the
board is in the hand. So the board stays in view while it is seen from all sides.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from rosa_client.calibration.board import Array
from rosa_client.calibration.errors import CalibrationError
from rosa_client.motion.limits import MotionLimits
from rosa_contract.config.robot import RobotSpec
from rosa_contract.kinematics.chain import Chain

MARGIN_RAD = 0.1  # to every joint limit
TILT_RAD = 0.45
SHIFT_M = 0.06
TRIES = 400
STEPS = 60
CLOSE_M, CLOSE_RAD = 1e-3, 2e-3
FARTHEST_RAD = 1.2  # no joint goes farther from where the arm stands


def poses_around(
    spec: RobotSpec,
    start_rad: Sequence[float],
    distance_m: float,
    count: int = 16,
    shift_m: float = SHIFT_M,
    seed: int = 0,
) -> Array:
    """Joint positions (count, joints), rad, in an order that moves the arm little, beginning near `start_rad`.

    `distance_m`: from the hand along its z to the point that it turns about; 0 with the board in the hand. `shift_m`:
    how far the hand is moved to each side besides; more fills more of the picture. Every pose, and the straight path to
    it in joint space, is within joint limits and workspace. Raises `CalibrationError`.
    """
    if spec.chain is None:
        words = "the robot file has no `chain`, so poses cannot be planned: guide the arm by hand instead"
        raise CalibrationError("degenerate", words)
    chain, limits = Chain(spec.chain), MotionLimits.of(spec)
    low = np.array(spec.limits.position_min_rad) + MARGIN_RAD
    high = np.array(spec.limits.position_max_rad) - MARGIN_RAD
    start = np.asarray(start_rad, np.float64)
    hand = chain.hand(start)
    random = np.random.default_rng(seed)
    found: list[Array] = []
    for _ in range(TRIES):
        if len(found) == count:
            return _ordered(start, found, limits)
        q = _reach(chain, start, _target(hand, distance_m, shift_m, random), low, high)
        if q is not None and np.abs(q - start).max() < FARTHEST_RAD and _allowed(limits, start, q):
            found.append(q)
    words = f"only {len(found)} of {count} poses around this one are within joint limits and workspace"
    raise CalibrationError("degenerate", f"{words}: begin elsewhere, or guide the arm by hand")


def _target(hand: Array, distance_m: float, shift_m: float, random: np.random.Generator) -> Array:
    """A pose of the hand (4, 4): tilted about the point before it, turned about its own axis, and shifted."""
    direction = random.uniform(0, 2 * np.pi)
    tilt = TILT_RAD * np.sqrt(random.uniform(0.15, 1.0))
    axis = np.array([np.cos(direction), np.sin(direction), 0.0])
    turn = cv2.Rodrigues(axis * tilt)[0] @ cv2.Rodrigues(np.array([0.0, 0.0, random.uniform(-0.8, 0.8)]))[0]
    about = np.array([0.0, 0.0, distance_m])
    local = np.eye(4)
    local[:3, :3] = turn
    local[:3, 3] = about - turn @ about + random.uniform(-shift_m, shift_m, 3)
    return np.asarray(hand @ local)


def _reach(chain: Chain, start: Array, target: Array, low: Array, high: Array) -> Array | None:
    """Damped least squares with a numeric Jacobian; None when it does not get there."""
    q = start.copy()
    for _ in range(STEPS):
        error = _error(chain.hand(q), target)
        if np.linalg.norm(error[:3]) < CLOSE_M and np.linalg.norm(error[3:]) < CLOSE_RAD:
            return q if (q >= low).all() and (q <= high).all() else None
        steps = q + 1e-6 * np.eye(len(q))
        jacobian = np.stack([(error - _error(one, target)) / 1e-6 for one in chain.hand(steps)], axis=1)
        step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-4 * np.eye(6), error)
        q = np.clip(q + np.clip(step, -0.3, 0.3), low, high)
    return None


def _error(pose: Array, target: Array) -> Array:
    """(6,): the way from `pose` to `target`, m, and the turn, rad."""
    turn = cv2.Rodrigues(target[:3, :3] @ pose[:3, :3].T)[0].ravel()
    return np.concatenate([target[:3, 3] - pose[:3, 3], turn])


def _allowed(limits: MotionLimits, start: Array, q: Array) -> bool:
    return limits.refusal([[*q, *limits.open_m]], "pose", start) is None


def _ordered(start: Array, found: list[Array], limits: MotionLimits) -> Array:
    """The nearest next, by way of `start` where the straight path is not allowed."""
    here, left, order = start, list(found), []
    while left:
        left.sort(key=lambda q: float(np.abs(q - here).max()))
        chosen = next((q for q in left if _allowed(limits, here, q)), None)
        if chosen is None:
            order.append(start)
            here = start
            continue
        order.append(chosen)
        here = chosen
        left = [q for q in left if q is not chosen]
    return np.stack(order)
