"""Action chunks as seven tokens: where the tool is after 400 ms and after 200 ms, and when the gripper switches.

OpenVLA spends its seven tokens on one step (displacement, rotation, gripper; Kim et al. 2024, section 3.2), in 256
uniform bins each. This arm keeps its tool pointing down, so the three numbers of the rotation describe a second point
instead, and one answer lasts for eight steps of 50 ms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.panda.common import MAX_WIDTH_M

BINS = 256
ACTION_TOKENS = 7
STEPS, STEP_S = 8, 0.05
MIDDLE = STEPS // 2
REACH_M = 0.18  # the bins cover displacements from -REACH_M to REACH_M: 1.4 mm each
LOW_M, HIGH_M = np.array([0.28, -0.45, 0.008]), np.array([0.72, 0.50, 0.60])  # of a sane path


def to_bins(value: NDArray[np.floating], reach: float = REACH_M, bins: int = BINS) -> NDArray[np.int64]:
    """Numbers -> bins 0 .. bins - 1 of equal width over -reach .. reach; what lies outside goes to the last bin."""
    share = (np.asarray(value, np.float64) / reach + 1.0) / 2.0
    return np.clip(np.floor(share * bins), 0, bins - 1).astype(np.int64)


def from_bins(tokens: NDArray[np.integer], reach: float = REACH_M, bins: int = BINS) -> NDArray[np.float64]:
    """The middle of each bin. A token that is no bin counts as the nearest one."""
    inside = np.clip(np.asarray(tokens, np.int64), 0, bins - 1)
    return ((inside + 0.5) / bins * 2.0 - 1.0) * reach


def to_tokens(path: NDArray[np.floating], tool_m: NDArray[np.floating]) -> NDArray[np.int64]:
    """Paths `(n, steps >= 8, 4)` of tool position and gripper width in m, tools `(n, 3)` -> tokens `(n, 7)`."""
    ahead = path[:, [STEPS - 1, MIDDLE - 1], :3] - tool_m[:, None]
    return np.concatenate(
        [to_bins(ahead).reshape(len(path), 6), _grip_tokens(path[:, :STEPS, 3])[:, None]], axis=1
    )


def from_tokens(tokens: NDArray[np.integer], tool_m: NDArray[np.floating]) -> NDArray[np.float64]:
    """Tokens `(n, 7)` -> paths `(n, 8, 4)`: straight to the middle point, straight to the end, within the workspace."""
    ahead = from_bins(tokens[:, :6]).reshape(len(tokens), 2, 3)
    end, middle = ahead[:, 0], ahead[:, 1]
    share = (np.arange(1, MIDDLE + 1) / MIDDLE)[None, :, None]
    first = middle[:, None] * share
    second = middle[:, None] + (end - middle)[:, None] * share
    moves = np.clip(np.concatenate([first, second], axis=1) + tool_m[:, None], LOW_M, HIGH_M)
    return np.concatenate([moves, _widths(tokens[:, 6])[:, :, None]], axis=-1)


def _grip_tokens(width_m: NDArray[np.floating]) -> NDArray[np.int64]:
    """Widths `(n, 8)` -> 0 .. 15: the first step's state (8 more if open), and how many steps later it switches."""
    is_open = width_m > MAX_WIDTH_M / 2
    differs = is_open != is_open[:, :1]
    later = np.where(differs.any(axis=1), differs.argmax(axis=1), STEPS) - 1
    tokens: NDArray[np.int64] = np.where(is_open[:, 0], STEPS, 0) + later
    return tokens


def _widths(grip: NDArray[np.integer]) -> NDArray[np.float64]:
    """The inverse of `_grip_tokens`: fully open or closed at each step; half a grasp drops the object."""
    inside = np.clip(grip, 0, 2 * STEPS - 1)
    begins_open = inside >= STEPS
    switched = np.arange(STEPS)[None, :] > (inside % STEPS)[:, None]
    return np.where(begins_open[:, None] != switched, MAX_WIDTH_M, 0.0)
