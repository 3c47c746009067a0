"""What of a chunk goes on playing while the next one is inferred. The server makes the next chunk join it.

Sources: Kairos 2.1; Black et al., Real-Time Execution of Action Chunking Flow Policies, 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from rosa_contract.wire.containers import ARRAY
from rosa_contract.wire.rules import Number, Whole, declared

MAX_ROWS, MAX_COLUMNS = 256, 64
MAX_STEP_S = 10.0
MAX_VALUES = 8192  # 32 KiB: half of what the header of a request may have


@dataclass(frozen=True, eq=False)
class Overlap:
    """The rest of the chunk that is being played, starting with the step at the time of the observation.

    Row 0 of the next chunk is for the same time as row 0 here.
    """

    actions: npt.NDArray[Any] = declared(
        ARRAY,
        f"`(rows, joints + grippers)` float32, rad and m, `step_s` apart; up to {MAX_ROWS} rows of 2 to {MAX_COLUMNS}"
        f" columns, {MAX_VALUES} values",
    )
    frozen: int = declared(
        Whole(1, MAX_ROWS), "number of leading rows that are played before the answer arrives"
    )
    step_s: float = declared(Number(0.0, MAX_STEP_S), "time between two rows; at least 0.001")


def overlap_problem(overlap: Overlap) -> str:
    """Why this is no overlap; empty when it is one. That its numbers are finite was checked when it was decoded."""
    shape = overlap.actions.shape
    if overlap.actions.dtype.kind != "f" or len(shape) != 2:
        return f"expected (rows, columns) of floats, got {overlap.actions.dtype} {shape}"
    if not (1 <= shape[0] <= MAX_ROWS and 2 <= shape[1] <= MAX_COLUMNS and shape[0] * shape[1] <= MAX_VALUES):
        return f"expected 1 to {MAX_ROWS} rows of 2 to {MAX_COLUMNS} columns, at most {MAX_VALUES} values, got {shape}"
    if not 1 <= overlap.frozen <= shape[0]:
        return f"expected 1 to {shape[0]} frozen rows, got {overlap.frozen}"
    if not 1e-3 <= overlap.step_s <= MAX_STEP_S:
        return f"expected a step of 0.001 to 10 s, got {overlap.step_s}"
    return ""
