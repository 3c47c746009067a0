"""A picture of a calibration: where the board was seen, and how far each corner is from where the result puts it."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from rosa_client.calibration.board import Array
from rosa_client.calibration.coverage import COLUMNS, ROWS, cells_seen
from rosa_client.calibration.detection import View
from rosa_contract.wire.images import Rgb

WIDTH_PX = 960
LINE_PX = 24
LONGER = 40.0  # factor by which a residual is drawn longer than it is
BAD_PX = 1.0  # as red as it gets


def draw_report(views: Sequence[View], residuals_px: Sequence[Array], title: Sequence[str]) -> Rgb:
    """(height, width, 3) RGB. `residuals_px`: (n, 2) per view; `title`: lines above the picture."""
    width, height = views[0].size
    scale = WIDTH_PX / width
    board = np.full((round(height * scale), WIDTH_PX, 3), 255, np.uint8)
    for (row, column), seen in np.ndenumerate(cells_seen(views)):
        top, left = (
            round(row * board.shape[0] / ROWS),
            round(column * WIDTH_PX / COLUMNS),
        )
        bottom, right = round((row + 1) * board.shape[0] / ROWS), round((column + 1) * WIDTH_PX / COLUMNS)
        colour = (226, 240, 226) if seen else (244, 222, 222)
        cv2.rectangle(board, (left, top), (right - 1, bottom - 1), colour, -1)
    for view, residuals in zip(views, residuals_px, strict=True):
        for corner, off in zip(view.corners_px, residuals, strict=True):
            bad = min(1.0, float(np.hypot(*off)) / BAD_PX)
            colour = (round(200 * bad), round(120 * (1 - bad)), 40)
            at = (corner + 0.5) * scale
            end = at - off * LONGER
            cv2.line(board, _whole(at), _whole(end), colour, 1, cv2.LINE_AA)
            cv2.circle(board, _whole(at), 2, colour, -1, cv2.LINE_AA)
    head = np.full((LINE_PX * (len(title) + 1), WIDTH_PX, 3), 255, np.uint8)
    legend = f"green: the board was here; lines: residuals, {LONGER:g} times longer, red from {BAD_PX:g} px"
    for number, text in enumerate([*title, legend]):
        at_px = (8, LINE_PX * number + 17)
        cv2.putText(head, text, at_px, cv2.FONT_HERSHEY_SIMPLEX, 0.5, (30, 30, 30), 1, cv2.LINE_AA)
    return np.vstack([head, board])


def _whole(point: Array) -> tuple[int, int]:
    return round(float(point[0])), round(float(point[1]))
