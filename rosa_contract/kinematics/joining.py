"""How the next chunk joins the one that plays: blending, for models that do not inpaint (`models/inpainting.py`).

The worker blends answers in joint positions, the robot those that it resolves itself. Inpainting and blending weigh the
overlap by the soft mask of Black et al., Real-Time Execution of Action Chunking Flow Policies, 2025, equation 5: 1 for
steps that are frozen, since they are played before the answer comes, then falling to 0 at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_contract.wire.overlap import Overlap


def soft_mask(frozen: int, overlap: int, horizon: int) -> NDArray[np.float64]:
    """Weights `(horizon,)` of an overlap of `overlap` steps, equation 5."""
    weights = np.zeros(horizon)
    rows = np.arange(min(overlap, horizon))
    share = np.clip((overlap - rows) / (overlap - frozen + 1), 0, 1)
    weights[: len(rows)] = share * np.expm1(share) / np.expm1(1)
    weights[: min(frozen, horizon)] = 1
    return weights


def blended(actions: NDArray[np.floating], overlap: Overlap, grippers: int = 1) -> NDArray[np.float32]:
    """`actions` `(horizon, joints + grippers)` that begin as the overlap does and end as they were.

    `grippers`: the last columns. They are not blended: between open and closed there is nothing that a task means.
    Raises `ValueError` for an overlap with other columns.
    """
    if actions.ndim != 2 or overlap.actions.shape[1] != actions.shape[1]:
        raise ValueError(f"overlap: expected rows as {actions.shape}, got {overlap.actions.shape}")
    rows = min(len(overlap.actions), len(actions))
    share = soft_mask(overlap.frozen, len(overlap.actions), len(actions))[:rows, None]
    joined = np.array(actions, np.float32)
    joints = actions.shape[1] - grippers
    joined[:rows, :joints] = share * overlap.actions[:rows, :joints] + (1 - share) * joined[:rows, :joints]
    joined[: overlap.frozen, joints:] = overlap.actions[:rows, joints:][: overlap.frozen]
    return joined


def check_steps(step_s: float, overlap: Overlap) -> None:
    """Raise `ValueError` unless an answer's `step_s` is the overlap's: its rows would be about other moments."""
    if not isclose(step_s, overlap.step_s, rel_tol=1e-3):
        raise ValueError(
            f"overlap: expected steps of {step_s:g} s as in the answer, got {overlap.step_s:g} s"
        )


def joined(
    arrays: Mapping[str, NDArray[Any]], overlap: Overlap, grippers: int = 1
) -> dict[str, NDArray[Any]]:
    """A model's arrays whose `actions` are blended into the overlap. `grippers`: how many the robot has.

    Raises `ValueError` as `blended` and `check_steps` do.
    """
    if "step_s" in arrays:
        check_steps(float(np.asarray(arrays["step_s"], np.float64).ravel()[0]), overlap)
    return {**arrays, "actions": blended(arrays["actions"], overlap, grippers)}
