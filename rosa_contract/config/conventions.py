"""Conversion of other units and gripper conventions from and to ROSA's own: rad, m, and gripper width in m.

Tables and pure functions, for model adapters, frontends and clients.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]

AS_IS = ""
UNITS = {  # name -> rad or m in one of it
    AS_IS: 1.0,
    "rad": 1.0,
    "deg": math.pi / 180,
    "turn": 2 * math.pi,
    "m": 1.0,
    "cm": 0.01,
    "mm": 0.001,
}

OF_RANGE = (
    "range_m100_100"  # of a joint: -100 at its lowest position, 100 at its highest; no factor says that
)

WIDTH = "width"
FINGER_PAIR = "finger_pair"
GRIPPERS: dict[str, tuple[float, float] | None] = {  # name -> (closed, open)
    WIDTH: None,  # m between the fingers
    "open_fraction": (0.0, 1.0),
    "closed_fraction": (1.0, 0.0),
    "open_percent": (0.0, 100.0),
    "closed_percent": (100.0, 0.0),
    "open_sign": (-1.0, 1.0),
    "closed_sign": (1.0, -1.0),
    FINGER_PAIR: None,  # two fingers: half the width, and half the width negative
}


def in_unit(values: ArrayLike, unit: str) -> Values:
    """rad or m -> `unit`. Raises `KeyError` for a unit that is not in `UNITS`."""
    return np.asarray(values, np.float64) / UNITS[unit]


def from_unit(values: ArrayLike, unit: str) -> Values:
    """`unit` -> rad or m."""
    return np.asarray(values, np.float64) * UNITS[unit]


def in_range(q_rad: ArrayLike, low_rad: ArrayLike, high_rad: ArrayLike) -> Values:
    """Joint positions -> `OF_RANGE`, clipped to the limits, as in LeRobot."""
    low, high = np.asarray(low_rad, np.float64), np.asarray(high_rad, np.float64)
    return (np.clip(np.asarray(q_rad, np.float64), low, high) - low) / (high - low) * 200.0 - 100.0


def from_range(values: ArrayLike, low_rad: ArrayLike, high_rad: ArrayLike) -> Values:
    """`OF_RANGE` -> joint positions, rad; values are clipped to -100..100."""
    low, high = np.asarray(low_rad, np.float64), np.asarray(high_rad, np.float64)
    return low + (np.clip(np.asarray(values, np.float64), -100.0, 100.0) + 100.0) / 200.0 * (high - low)


def gripper_in(convention: str, width_m: ArrayLike, closed_m: float, open_m: float) -> Values:
    """Widths `(..., 1)`, m -> `convention`, `(..., 1)`, or `(..., 2)` for `finger_pair`.

    `closed_m`, `open_m`: the widths of the closed and the open gripper. Widths are clipped to them.
    """
    width = np.clip(np.asarray(width_m, np.float64), closed_m, open_m)
    if convention == FINGER_PAIR:
        return np.concatenate([width / 2, -width / 2], axis=-1)
    ends = GRIPPERS[convention]
    if ends is None:
        return width
    closed, opened = ends
    return closed + (width - closed_m) / (open_m - closed_m) * (opened - closed)


def gripper_from(
    convention: str, values: ArrayLike, closed_m: float, open_m: float, binary: bool = False
) -> Values:
    """`convention` -> widths, m, clipped to `closed_m` and `open_m`.

    `binary`: fully closed or open, whichever is nearer. Raises `ValueError` for `finger_pair`: a command is one width.
    """
    if convention == FINGER_PAIR:
        raise ValueError("a gripper is ordered one width, not a pair of fingers")
    given = np.asarray(values, np.float64)
    ends = GRIPPERS[convention]
    share = (
        (given - closed_m) / (open_m - closed_m) if ends is None else (given - ends[0]) / (ends[1] - ends[0])
    )
    share = np.clip(share, 0.0, 1.0)
    if binary:
        share = np.heaviside(share - 0.5, 1.0)  # NaN stays what it is: it closes nothing
    return closed_m + share * (open_m - closed_m)


def swapped(picture: NDArray[Any]) -> NDArray[Any]:
    """`(..., 3)` RGB <-> BGR."""
    return np.ascontiguousarray(picture[..., ::-1])
