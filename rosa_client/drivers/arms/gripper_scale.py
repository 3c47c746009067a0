"""Widths between the fingers, and the positions by which a gripper's action and its joints tell them. Pure.

A position may be a length or an angle, and may grow when the gripper closes, as that of a Robotiq 2F does (0 is open,
0.8 rad closed). Between both ends width and position count as a straight line; for an angle that is an approximation.
"""

from __future__ import annotations

from dataclasses import dataclass

from rosa_contract.config.arms import FRANKA, GripperActions
from rosa_contract.config.robot import GripperSpec


@dataclass(frozen=True)
class GripperScale:
    """The straight line through (`closed_m`, `closed`) and (`open_m`, `open`); widths in m, positions in m or rad."""

    closed_m: float
    open_m: float
    closed: float
    open: float

    def position(self, width_m: float) -> float:
        """The position at `width_m`."""
        share = (width_m - self.closed_m) / (self.open_m - self.closed_m)
        return self.closed + share * (self.open - self.closed)

    def width_m(self, position: float) -> float:
        """The width at `position`."""
        share = (position - self.closed) / (self.open - self.closed)
        return self.closed_m + share * (self.open_m - self.closed_m)


def goal_scale(gripper: GripperSpec, settings: GripperActions) -> GripperScale:
    """For the goals of a `control_msgs` action."""
    ends = settings.closed_position, settings.open_position
    return _scale(gripper, ends, (gripper.min_m, gripper.max_m))


def joint_scale(gripper: GripperSpec, settings: GripperActions, count: int) -> GripperScale:
    """For the mean position of the `count` finger joints."""
    ends = settings.joint_closed_position, settings.joint_open_position
    if ends == (None, None) and settings.kind != FRANKA:
        ends = settings.closed_position, settings.open_position
    return _scale(gripper, ends, (gripper.min_m / count, gripper.max_m / count))


def _scale(
    gripper: GripperSpec, given: tuple[float | None, float | None], default: tuple[float, float]
) -> GripperScale:
    """`given` and `default`: the positions when closed and when open."""
    closed, opened = given
    if closed is None or opened is None:
        closed, opened = default
    return GripperScale(gripper.min_m, gripper.max_m, closed, opened)
