"""Where in the picture the board was seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rosa_client.calibration.detection import View

COLUMNS, ROWS = 8, 6


def cells_seen(views: Sequence[View]) -> npt.NDArray[np.bool_]:
    """(`ROWS`, `COLUMNS`): which cells of the picture held a corner of the board."""
    seen = np.zeros((ROWS, COLUMNS), np.bool_)
    for view in views:
        width, height = view.size
        columns = np.clip((view.corners_px[:, 0] * COLUMNS / width).astype(int), 0, COLUMNS - 1)
        rows = np.clip((view.corners_px[:, 1] * ROWS / height).astype(int), 0, ROWS - 1)
        seen[rows, columns] = True
    return seen


def missing(views: Sequence[View]) -> str:
    """Where the board should be held next, in words; empty when it was everywhere."""
    seen = cells_seen(views)
    parts = {
        "top left": seen[:3, :4],
        "top right": seen[:3, 4:],
        "bottom left": seen[3:, :4],
        "bottom right": seen[3:, 4:],
    }
    return ", ".join(name for name, part in parts.items() if part.mean() < 0.5)
