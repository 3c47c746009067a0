"""Finds the board in a picture, or says why not."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from rosa_client.calibration.board import Array, BoardSpec
from rosa_client.calibration.errors import CalibrationError
from rosa_contract.wire.images import Rgb

MIN_CORNERS = 8
MAX_BLUR_PX = 2.0  # about where the markers of a board that fills a third of the picture are no longer read
# Two smoothings of the picture, px; from what the second leaves of the edges that the first leaves follows their width.
FIRST_PX, SECOND_PX = 1.0, 2.0


@dataclass(frozen=True)
class View:
    """The board in one picture: `corners_px` (n, 2) are the inner corners number `ids` (n,) of the board."""

    name: str
    size: tuple[int, int]  # (width, height) of the picture, px
    corners_px: Array
    ids: np.ndarray
    blur_px: float

    def points_m(self, board: BoardSpec) -> Array:
        """The same corners (n, 3) in the board's frame."""
        return np.asarray(board.points_m[self.ids], np.float64)


@dataclass(frozen=True)
class Missed:
    """Why a picture is no view: a cause of `CalibrationError`, and words."""

    name: str
    cause: str
    reason: str


def find_board(name: str, rgb: Rgb, board: BoardSpec) -> View | Missed:
    """`rgb`: (height, width, 3). `name` is that of the picture, for people."""
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    parameters = cv2.aruco.DetectorParameters()
    parameters.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_SUBPIX
    detector = cv2.aruco.CharucoDetector(board.opencv)
    detector.setDetectorParameters(parameters)
    corners, ids, markers, marker_ids = detector.detectBoard(grey)
    count = 0 if ids is None else len(ids)
    seen = 0 if marker_ids is None else len(marker_ids)
    if not seen:
        if (blur := blur_px(grey)) > MAX_BLUR_PX:
            return Missed(name, "blurred", _blurred(blur))
        return Missed(name, "no_board", "no marker of the board is in view")
    blur = blur_px(_around(grey, np.concatenate([one.reshape(-1, 2) for one in markers])))
    if blur > MAX_BLUR_PX:
        return Missed(name, "blurred", _blurred(blur))
    foreign = sorted(int(one) for one in marker_ids.ravel() if one >= len(board.opencv.getIds()))
    if foreign:
        words = f"markers {', '.join(map(str, foreign[:4]))} are not on a board {board}"
        return Missed(name, "wrong_board", words)
    if count < MIN_CORNERS:
        if seen >= MIN_CORNERS:
            words = f"{seen} markers but {count} corners: their places are not those of a board {board}"
            return Missed(name, "wrong_board", words)
        return Missed(name, "too_few_views", f"only {count} corners of the board, expected {MIN_CORNERS}")
    height, width = grey.shape
    found = np.asarray(corners, np.float64).reshape(-1, 2)
    return View(name, (width, height), found, np.asarray(ids).ravel(), blur)


def views_of(found: list[View | Missed], lowest: int) -> list[View]:
    """The views, where there are enough of one size. Raises `CalibrationError`: the usual reason."""
    views = [one for one in found if isinstance(one, View)]
    if views and len({view.size for view in views}) > 1:
        sizes = ", ".join(sorted({f"{width}x{height}" for width, height in (view.size for view in views)}))
        raise CalibrationError("bad_picture", f"pictures of one camera have different sizes: {sizes} px")
    if len(views) >= lowest:
        return views
    missed = [one for one in found if isinstance(one, Missed)]
    causes = [one.cause for one in missed]
    shown = f"{len(views)} of {len(found)} pictures show enough of the board, expected at least {lowest}"
    if not missed or len(views) >= len(missed):
        words = "take more, from other sides and distances, so that the board reaches into every corner"
        raise CalibrationError("too_few_views", f"{shown}; {words}")
    cause = max(set(causes), key=causes.count)
    first = next(one for one in missed if one.cause == cause)
    raise CalibrationError(cause, f"{shown}; most often ({first.name}): {first.reason}; {_REMEDY[cause]}")


_REMEDY = {
    "no_board": "hold it in view, light it, and use the board that `rosa calibrate board` prints",
    "wrong_board": "describe the printed board with --board",
    "blurred": "hold arm and board still, focus the lens, use more light",
    "too_few_views": "bring the board nearer, or more of it into the picture",
}


def blur_px(grey: np.ndarray) -> float:
    """How blurred the edges of a picture (height, width) are: the standard deviation of the blur, px.

    The Laplacian's variance at a step that is blurred by s and smoothed by f goes with (s^2 + f^2)^-2.5. Noise has no
    width, so a noisy picture counts as sharper than it is.
    """
    first, second = (
        float(cv2.Laplacian(cv2.GaussianBlur(grey.astype(np.float64), (0, 0), width), cv2.CV_64F).var())
        for width in (FIRST_PX, SECOND_PX)
    )
    if first <= 0.0:
        return 0.0
    left = min((second / first) ** 0.4, 0.999)
    return float(np.sqrt(max(0.0, (left * SECOND_PX**2 - FIRST_PX**2) / (1 - left))))


def _around(grey: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """The part of the picture that holds `corners` (n, 2)."""
    low = np.maximum(corners.min(axis=0).astype(int), 0)
    high = corners.max(axis=0).astype(int) + 1
    return grey[low[1] : high[1], low[0] : high[0]]


def _blurred(blur: float) -> str:
    return f"blurred: its edges are spread by {blur:.1f} px, expected {MAX_BLUR_PX:g} at most"
