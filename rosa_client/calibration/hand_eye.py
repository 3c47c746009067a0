"""Where a camera is: fixed beside the arm, which holds the board, or on the hand, before a board that lies still.

One problem in two readings. With A_i what the arm did and B_i the board in the camera's frame, X and Z are constant:

    on the hand:  A_i = base <- hand,  X = hand <- camera,  Z = base <- board:   A_i X B_i = Z
    fixed:        A_i = hand <- base,  X = base <- camera,  Z = hand <- board:   A_i X B_i = Z

A closed form (Park and Martin 1994, in OpenCV) begins; then X, Z and the scale of the board are refined together, so
that the corners' residual in the pictures becomes least (Levenberg-Marquardt).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from rosa_client.calibration.board import Array, BoardSpec
from rosa_client.calibration.detection import Missed, View
from rosa_client.calibration.errors import CalibrationError
from rosa_client.calibration.lens import OUTLIER, OUTLIER_PX, camera_matrix, distortion
from rosa_client.calibration.names import MIN_VIEWS
from rosa_contract.config.cameras import Intrinsics

MIN_TURN_RAD = np.radians(15.0)
MIN_AXES = 0.15  # second singular value of the unit axes of the turns, as a share of the first
MAX_RMS_PX = 2.0
MAX_SCALE = 0.01  # how far the board may be from its described size
STEPS = 60


@dataclass(frozen=True)
class HandEyeSample:
    """One picture with the arm's pose `base_hand` (4, 4): the hand's frame in the base's."""

    base_hand: Array
    view: View


@dataclass(frozen=True)
class HandEyeResult:
    """`mount` (4, 4): the camera's optical frame in its parent's, the hand's or the base's."""

    mount: Array
    board: Array  # (4, 4): the board in the base's frame, or, of a fixed camera, in the hand's
    scale: float  # of the board, found over described
    rms_px: float
    spread_m: float  # rms distance between where each picture alone sees the board, and where it is
    spread_rad: float
    used: tuple[HandEyeSample, ...]
    residuals_px: tuple[Array, ...]  # (n, 2) per used sample
    rejected: tuple[Missed, ...]


def solve_hand_eye(
    samples: Sequence[HandEyeSample],
    lens: Intrinsics,
    board: BoardSpec,
    on_hand: bool,
    min_views: int = MIN_VIEWS,
) -> HandEyeResult:
    """Raises `CalibrationError` when the samples do not determine the camera's place."""
    used, rejected = list(samples), list[Missed]()
    if len(used) < min_views:
        words = f"{len(used)} pictures with the arm's pose, expected at least {min_views}"
        raise CalibrationError("too_few_views", f"{words}: move the arm and take more")
    _check_motion(used)
    while True:
        result = _solve(used, lens, board, on_hand)
        rms = np.array([_rms(one) for one in result.residuals_px])
        worst = int(rms.argmax())
        if rms[worst] <= max(OUTLIER * float(np.median(rms)), OUTLIER_PX):
            break
        words = f"residual {rms[worst]:.1f} px, the others {np.median(rms):.2f} px"
        rejected.append(Missed(used[worst].view.name, "high_residual", words))
        del used[worst]
        if len(used) < min_views:
            raise CalibrationError("high_residual", _contradiction(len(rejected), len(samples)))
    if result.rms_px > MAX_RMS_PX:
        raise CalibrationError("high_residual", _contradiction(len(rejected), len(samples), result.rms_px))
    if abs(result.scale - 1) > MAX_SCALE:
        words = f"the board is {result.scale:.3f} times as large as described ({board})"
        raise CalibrationError(
            "wrong_board", f"{words}: measure a square of the print and give its size with --board"
        )
    return replace(result, rejected=tuple(rejected))


def _contradiction(rejected: int, of: int, rms_px: float = 0.0) -> str:
    left = f", residual {rms_px:.1f} px" if rms_px else ""
    return (
        f"{rejected} of {of} pictures contradict the others{left}: did the board move against what holds it, "
        "was the arm moving, or is the lens not this camera's?"
    )


def _check_motion(samples: Sequence[HandEyeSample]) -> None:
    """The arm must turn about two axes that are not parallel, otherwise a part of the place is free."""
    turns = [
        cv2.Rodrigues(one.base_hand[:3, :3] @ other.base_hand[:3, :3].T)[0].ravel()
        for index, one in enumerate(samples)
        for other in samples[:index]
    ]
    angles = np.linalg.norm(turns, axis=1)
    if angles.max() < MIN_TURN_RAD:
        highest, lowest = np.degrees(angles.max()), np.degrees(MIN_TURN_RAD)
        words = f"the hand turned by {highest:.0f} degrees at most, expected {lowest:.0f}"
        raise CalibrationError("degenerate", f"{words}: tilt it to all sides between the pictures")
    large = np.asarray(turns)[angles > 0.3 * angles.max()]
    axes = large / np.linalg.norm(large, axis=1, keepdims=True)
    singular = np.linalg.svd(axes, compute_uv=False)
    if singular[1] < MIN_AXES * singular[0]:
        words = "the hand turned about one axis only"
        raise CalibrationError(
            "degenerate", f"{words}: tilt it to two sides at least, not just around one axis"
        )


def _solve(
    samples: Sequence[HandEyeSample], lens: Intrinsics, board: BoardSpec, on_hand: bool
) -> HandEyeResult:
    matrix, bend = camera_matrix(lens), distortion(lens)
    points: list[Array] = [sample.view.points_m(board) for sample in samples]
    seen = [_board_in_camera(one.view, p, matrix, bend) for one, p in zip(samples, points, strict=True)]
    arm: list[Array] = [
        one.base_hand if on_hand else np.asarray(np.linalg.inv(one.base_hand), np.float64) for one in samples
    ]
    turn, move = cv2.calibrateHandEye(
        [a[:3, :3] for a in arm],
        [a[:3, 3] for a in arm],
        [b[:3, :3] for b in seen],
        [b[:3, 3] for b in seen],
        method=cv2.CALIB_HAND_EYE_PARK,
    )
    mount = _pose(np.asarray(turn, np.float64), np.asarray(move, np.float64).ravel())
    place = _mean([a @ mount @ b for a, b in zip(arm, seen, strict=True)])
    if not (np.isfinite(mount).all() and np.isfinite(place).all()):
        raise CalibrationError(
            "degenerate", "the arm's poses do not determine the camera's place: vary them more"
        )
    pixels: list[Array] = [one.view.corners_px for one in samples]
    mount, place, scale = _refine(mount, place, arm, points, pixels, matrix, bend)
    residuals = _residuals(mount, place, scale, arm, points, pixels, matrix, bend)
    alone = [a @ mount @ _scaled(b, scale) for a, b in zip(arm, seen, strict=True)]
    off = [np.linalg.inv(place) @ one for one in alone]
    return HandEyeResult(
        mount,
        place,
        scale,
        _rms(np.concatenate(residuals)),
        float(np.sqrt(np.mean([(one[:3, 3] ** 2).sum() for one in off]))),
        float(np.sqrt(np.mean([(cv2.Rodrigues(one[:3, :3])[0] ** 2).sum() for one in off]))),
        tuple(samples),
        tuple(residuals),
        (),
    )


def _board_in_camera(view: View, points_m: Array, matrix: Array, bend: Array) -> Array:
    """(4, 4) from one picture alone."""
    done, turn, move = cv2.solvePnP(points_m, view.corners_px, matrix, bend, flags=cv2.SOLVEPNP_IPPE)
    if not done:
        raise CalibrationError("high_residual", f"{view.name}: its corners fit no board")
    turn, move = cv2.solvePnPRefineLM(points_m, view.corners_px, matrix, bend, turn, move)
    return _pose(np.asarray(cv2.Rodrigues(turn)[0]), np.asarray(move, np.float64).ravel())


def _refine(
    mount: Array,
    place: Array,
    arm: Sequence[Array],
    points: Sequence[Array],
    pixels: Sequence[Array],
    matrix: Array,
    bend: Array,
) -> tuple[Array, Array, float]:
    """Levenberg-Marquardt over 6 + 6 + 1 numbers with a numeric Jacobian."""

    def at(step: Array) -> tuple[Array, Array, float]:
        return mount @ _small(step[:6]), place @ _small(step[6:12]), float(np.exp(step[12]))

    def cost(step: Array) -> Array:
        x, z, s = at(step)
        return np.concatenate(_residuals(x, z, s, arm, points, pixels, matrix, bend)).ravel()

    now, damping = np.zeros(13), 1e-3
    error = cost(now)
    for _ in range(STEPS):
        jacobian = np.stack([(cost(now + d) - cost(now - d)) / 2e-6 for d in 1e-6 * np.eye(13)], axis=1)
        square = jacobian.T @ jacobian
        step = -np.linalg.solve(square + damping * np.diag(np.diag(square)), jacobian.T @ error)
        tried = cost(now + step)
        if tried @ tried < error @ error:
            gained = 1 - (tried @ tried) / (error @ error)
            now, error, damping = now + step, tried, damping / 5
            if gained < 1e-9:
                break
        else:
            damping *= 10
            if damping > 1e6:
                break
    return at(now)


def _residuals(
    mount: Array,
    place: Array,
    scale: float,
    arm: Sequence[Array],
    points: Sequence[Array],
    pixels: Sequence[Array],
    matrix: Array,
    bend: Array,
) -> list[Array]:
    """(n, 2) px per picture: found minus explained."""
    found = []
    for a, p, pixel in zip(arm, points, pixels, strict=True):
        seen = np.linalg.inv(a @ mount) @ place
        turn = cv2.Rodrigues(seen[:3, :3])[0]
        explained = cv2.projectPoints(scale * p, turn, seen[:3, 3], matrix, bend)[0]
        found.append(pixel - np.asarray(explained, np.float64).reshape(-1, 2))
    return found


def _pose(turn: Array, move: Array) -> Array:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn, move
    return pose


def _small(step: Array) -> Array:
    """A pose of a turn vector and a move (6,)."""
    return _pose(np.asarray(cv2.Rodrigues(step[:3])[0]), step[3:])


def _scaled(seen: Array, scale: float) -> Array:
    """What one picture alone sees of a board that is `scale` times as large."""
    grown = seen.copy()
    grown[:3, 3] *= scale
    return grown


def _mean(poses: Sequence[Array]) -> Array:
    """The mean place, and the rotation nearest to the mean one."""
    left, _, right = np.linalg.svd(sum(pose[:3, :3] for pose in poses))
    turn = left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right
    return _pose(turn, np.mean([pose[:3, 3] for pose in poses], axis=0))


def _rms(residuals: Array) -> float:
    return float(np.sqrt((residuals**2).sum(axis=1).mean()))
