"""Why something was refused: a cause that programs compare, and words for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """Returned instead of None by whatever may refuse: limits, the arm, the emergency stop, an alert."""

    cause: str  # machine-readable, such as joint_limit
    reason: str  # what was expected, what came, and what to do

    def __str__(self) -> str:
        return self.reason
