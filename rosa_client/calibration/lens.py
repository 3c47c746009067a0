"""A camera's lens from views of the board: focal length, optical centre, distortion.

Zhang's method ("A flexible new technique for camera calibration", 2000), as OpenCV solves it. The distortion is
k1, k2, p1, p2: k3 helps wide lenses only, and for others makes the focal length less certain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np

from rosa_client.calibration.board import Array, BoardSpec
from rosa_client.calibration.coverage import cells_seen
from rosa_client.calibration.detection import Missed, View, views_of
from rosa_client.calibration.errors import CalibrationError
from rosa_contract.config.cameras import Intrinsics

MIN_VIEWS = 8
OUTLIER = 3.0  # times the median residual of the views
OUTLIER_PX = 0.6  # a view with less is never an outlier
MAX_RMS_PX = 1.5
# The distance to the board and the focal length can be told apart only by the perspective of boards that are tilted.
MIN_TILT_RAD = np.radians(12.0)
MAX_DOUBT = 0.02  # standard deviation of the focal length, as a share of it
MIN_COVERAGE = 0.4  # of the picture's cells; distortion is unknown where no corner was


@dataclass(frozen=True)
class LensResult:
    """The lens, and what it rests on."""

    intrinsics: Intrinsics
    size: tuple[int, int]  # (width, height) px of the pictures that it was measured on
    rms_px: float
    doubt_px: tuple[float, float]  # standard deviations of fx and fy
    coverage: float  # share of the picture's cells that held a corner
    used: tuple[View, ...]
    residuals_px: tuple[Array, ...]  # (n, 2) per used view: found minus explained
    rejected: tuple[Missed, ...]  # outliers and pictures without a view


def camera_matrix(lens: Intrinsics) -> Array:
    """(3, 3)."""
    return np.array([[lens.fx, 0.0, lens.cx], [0.0, lens.fy, lens.cy], [0.0, 0.0, 1.0]])


def distortion(lens: Intrinsics) -> Array:
    """As OpenCV takes it."""
    return np.asarray(lens.distortion or (0.0,) * 5, np.float64)


def solve_lens(found: list[View | Missed], board: BoardSpec, min_views: int = MIN_VIEWS) -> LensResult:
    """Raises `CalibrationError` when the pictures do not determine the lens."""
    views = views_of(found, min_views)
    rejected = [one for one in found if isinstance(one, Missed)]
    while True:
        solved = _solve(views, board)
        rms = np.array([_rms(one) for one in solved.residuals_px])
        worst = int(rms.argmax())
        if rms[worst] <= max(OUTLIER * float(np.median(rms)), OUTLIER_PX):
            break
        words = f"residual {rms[worst]:.1f} px, the others {np.median(rms):.2f} px"
        rejected.append(Missed(views[worst].name, "high_residual", words))
        views = views[:worst] + views[worst + 1 :]
        if len(views) < min_views:
            words = f"{len(rejected)} of {len(found)} pictures contradict the others"
            raise CalibrationError("high_residual", f"{words}: is the board flat, and was it held still?")
    _check(solved)
    return replace(solved, rejected=tuple(rejected))


def fitted(lens: Intrinsics, from_size: tuple[int, int], to_size: tuple[int, int]) -> Intrinsics:
    """The same lens for pictures that camera drivers have cut and scaled to `to_size` (`drivers.cameras.fit`).

    Sizes are (width, height) px. Distortion is of directions, so it stays.
    """
    scale, left, top = _cut(from_size, to_size)
    # Pixel centres are whole numbers: the corner of the picture is at -0.5.
    return replace(
        lens,
        fx=lens.fx / scale,
        fy=lens.fy / scale,
        cx=(lens.cx - left + 0.5) / scale - 0.5,
        cy=(lens.cy - top + 0.5) / scale - 0.5,
    )


def unfitted(lens: Intrinsics, from_size: tuple[int, int], to_size: tuple[int, int]) -> Intrinsics:
    """The lens for the whole picture of `from_size`, where `lens` is that of the fitted picture of `to_size`."""
    scale, left, top = _cut(from_size, to_size)
    return replace(
        lens,
        fx=lens.fx * scale,
        fy=lens.fy * scale,
        cx=(lens.cx + 0.5) * scale - 0.5 + left,
        cy=(lens.cy + 0.5) * scale - 0.5 + top,
    )


def _cut(from_size: tuple[int, int], to_size: tuple[int, int]) -> tuple[float, int, int]:
    """How many pixels become one, and how many are cut off at the left and at the top."""
    (width, height), (to_width, to_height) = from_size, to_size
    scale = min(width / to_width, height / to_height)
    return scale, (width - int(to_width * scale)) // 2, (height - int(to_height * scale)) // 2


def _solve(views: list[View], board: BoardSpec) -> LensResult:
    points: list[Any] = [view.points_m(board).astype(np.float32) for view in views]
    pixels: list[Any] = [view.corners_px.astype(np.float32) for view in views]
    size = views[0].size
    try:
        rms, matrix, bend, turns, moves, deviations, _, _ = cv2.calibrateCameraExtended(
            points, pixels, size, np.eye(3), np.zeros(5), flags=cv2.CALIB_FIX_K3
        )
    except cv2.error:
        words = "the views do not determine a lens: tilt the board, and fill the picture with it"
        raise CalibrationError("degenerate", words) from None
    residuals = tuple(
        np.asarray(pixel, np.float64)
        - np.asarray(cv2.projectPoints(point, turn, move, matrix, bend)[0], np.float64).reshape(-1, 2)
        for point, pixel, turn, move in zip(points, pixels, turns, moves, strict=True)
    )
    tilt = _tilt([np.asarray(turn) for turn in turns])
    if tilt < MIN_TILT_RAD:
        words = (
            f"all boards lie in almost the same plane direction ({np.degrees(tilt):.0f} degrees apart at most, "
            f"expected {np.degrees(MIN_TILT_RAD):.0f}): tilt the board, or the camera, to all sides"
        )
        raise CalibrationError("degenerate", words)
    lens = Intrinsics(
        float(matrix[0, 0]),
        float(matrix[1, 1]),
        float(matrix[0, 2]),
        float(matrix[1, 2]),
        tuple(float(value) for value in np.ravel(bend)[:5]),
    )
    doubt = (float(deviations.ravel()[0]), float(deviations.ravel()[1]))
    return LensResult(
        lens, size, float(rms), doubt, float(cells_seen(views).mean()), tuple(views), residuals, ()
    )


def _tilt(turns: list[Array]) -> float:
    """The largest angle between the normals of two boards, rad."""
    normals = np.array([cv2.Rodrigues(turn)[0][:, 2] for turn in turns])
    return float(np.arccos(np.clip((normals @ normals.T).min(), -1.0, 1.0)))


def _rms(residuals: Array) -> float:
    return float(np.sqrt((residuals**2).sum(axis=1).mean()))


def _check(solved: LensResult) -> None:
    lens, (width, height) = solved.intrinsics, solved.size
    if solved.rms_px > MAX_RMS_PX:
        words = (
            f"residual {solved.rms_px:.2f} px, expected {MAX_RMS_PX:g} at most: "
            "is the board flat, and described right?"
        )
        raise CalibrationError("high_residual", words)
    if max(solved.doubt_px) > MAX_DOUBT * lens.fx or not (0 < lens.cx < width and 0 < lens.cy < height):
        words = f"the focal length stays uncertain ({lens.fx:.0f} +- {solved.doubt_px[0]:.0f} px)"
        raise CalibrationError("degenerate", f"{words}: tilt the board more, and bring it nearer")
    if solved.coverage < MIN_COVERAGE:
        words = f"the board was seen in {100 * solved.coverage:.0f} % of the picture only"
        raise CalibrationError(
            "degenerate", f"{words}: bring it into every corner, {100 * MIN_COVERAGE:.0f} % at least"
        )
