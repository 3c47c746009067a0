"""The spaces in which an answer may order an arm besides joint positions, and what their columns are.

An answer in joint positions is an array `actions`. One in another space is an array with the space's name, which the
robot turns into joint positions by itself: `(rows, columns)` and, where the model orders the grippers, a column more
for each, from 0 (closed) to 1 (open). A joint space has a column per joint, rad or rad/s. A tool space has six for each
arm: the place of the tool, m, and a rotation vector, rad; of a velocity, per second. What is not `in_tool` is along the
axes of the base frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rosa_contract.config.adapter import (
    ABSOLUTE,
    BASE,
    DELTA,
    JOINTS,
    STEP_DELTA,
    TOOL,
    TOOL_POSITION,
    VELOCITY,
)

ACTIONS = "actions"  # the array of an answer in joint positions
TOOL_COLUMNS = 6


@dataclass(frozen=True)
class Space:
    """What the columns order (`JOINTS` or `TOOL_POSITION`, with the rotation), how, and along whose axes."""

    to: str
    mode: str
    frame: str = BASE

    @property
    def needs_chain(self) -> bool:
        """Whether only a robot that knows its links can carry it out."""
        return self.to != JOINTS

    def columns(self, joints: int, arms: int = 1) -> int:
        """Without the grippers'."""
        return joints if self.to == JOINTS else TOOL_COLUMNS * arms


SPACES = {
    "joint_delta": Space(JOINTS, DELTA),
    "joint_step_delta": Space(JOINTS, STEP_DELTA),
    "joint_velocity": Space(JOINTS, VELOCITY),
    "tool_pose": Space(TOOL_POSITION, ABSOLUTE),
    "tool_delta": Space(TOOL_POSITION, DELTA),
    "tool_step_delta": Space(TOOL_POSITION, STEP_DELTA),
    "tool_velocity": Space(TOOL_POSITION, VELOCITY),
    "tool_delta_in_tool": Space(TOOL_POSITION, DELTA, TOOL),
    "tool_step_delta_in_tool": Space(TOOL_POSITION, STEP_DELTA, TOOL),
    "tool_velocity_in_tool": Space(TOOL_POSITION, VELOCITY, TOOL),
}


def space_named(space: Space) -> str | None:
    """The name of a space; None where there is none, such as for absolute joint positions."""
    return next((name for name, known in SPACES.items() if known == space), None)


def chunks_in(arrays: Iterable[str]) -> list[str]:
    """Which of an answer's arrays order an arm."""
    return [name for name in arrays if name == ACTIONS or name in SPACES]
