"""The action spaces besides joint positions, and their columns.

An answer in joint positions is an array `actions`. One in another space is an array with the space's name, `(rows,
columns)`, which the robot itself converts to joint positions. If the model commands the grippers, each has one more
column, from 0 (closed) to 1 (open). A joint space has a column per joint, rad or rad/s. A tool space has six per arm:
the tool position, m, and a rotation vector, rad, or both per second for a velocity. Deltas and velocities are along the
axes of the base frame, or of the tool frame if the name ends with `in_tool`.
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
    """What the columns command (`JOINTS`, or `TOOL_POSITION` with the rotation), in which mode and frame."""

    to: str
    mode: str
    frame: str = BASE

    @property
    def needs_chain(self) -> bool:
        """Whether the robot needs a kinematic chain for it."""
        return self.to != JOINTS

    def columns(self, joints: int, arms: int = 1) -> int:
        """Number of columns, without the grippers."""
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
    """The name of a space; None if it has none, such as absolute joint positions."""
    return next((name for name, known in SPACES.items() if known == space), None)


def chunks_in(arrays: Iterable[str]) -> list[str]:
    """Which of an answer's arrays command an arm."""
    return [name for name in arrays if name == ACTIONS or name in SPACES]
