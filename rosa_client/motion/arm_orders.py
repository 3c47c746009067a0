"""The orders that an arm takes, and the states that it reports: the vocabulary of `chunk_player.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

ROUNDING = 1e-6  # of a step: a row is played from its time on


class PlayerState(Enum):
    """What the arm is doing; the numbers are those of rosa_interfaces/ArmStatus."""

    HOLDING = 0
    PLAYING = 1
    MOVING = 2
    RETURNING = 3


@dataclass(frozen=True)
class OrderId:
    """Place of an order in its sequence: a restarted sender has a greater epoch, and each order the next number."""

    epoch: int
    seq: int

    def newer_than(self, other: OrderId) -> bool:
        return (self.epoch, self.seq) > (other.epoch, other.seq)


@dataclass(frozen=True)
class Play:
    """Play a chunk: `actions` (horizon, dof + grippers), joints in rad then widths in m, `step_s` apart.

    A chunk that joins another one in mid-motion skips what has been played meanwhile. If the sender has counted that
    with another scale than the arm moves with, waypoints would be left out, or played twice.
    """

    actions: npt.ArrayLike
    step_s: float
    skip_s: float = 0.0  # start this far into the chunk
    execute_s: float = 0.0  # play this much of it; 0 = to its end
    velocity_scale: float | None = (
        None  # what `skip_s` was counted with; None: that of the arm, whatever it is
    )


def row_at(into_s: float, end_s: float, step_s: float, rows: int) -> int:
    """Which of a chunk's rows is the target, `into_s` from its beginning, if it is played up to `end_s`. From then on
    it is the last one that was played."""
    ended = into_s >= end_s - ROUNDING * step_s
    slots = min(into_s, end_s) / step_s + (-ROUNDING if ended else ROUNDING)
    return min(max(0, int(slots)), rows - 1)


@dataclass(frozen=True)
class MoveTo:
    """Move to `q_rad` (dof,) and `gripper_m`, then hold.

    `gripper_m` (grippers,), or one number for each. NaN leaves a gripper as it was last told, infinity opens it fully.
    """

    q_rad: npt.ArrayLike
    gripper_m: npt.ArrayLike


@dataclass(frozen=True)
class Hold:
    """Come to rest as fast as the limits allow, and stay."""


@dataclass(frozen=True)
class Unreadable:
    """A command that is not a valid order. It is refused, and the arm holds."""

    why: str


Order = Play | MoveTo | Hold | Unreadable


@dataclass(frozen=True)
class Setpoint:
    """Where the arm should be: `q_rad` (dof,) and the widths of its grippers; and where it rests if no more come."""

    q_rad: npt.NDArray[np.float64]
    gripper_m: npt.NDArray[np.float64]  # (grippers,)
    rest_rad: npt.NDArray[np.float64]  # (dof,)
    rest_s: float  # how long the way from `q_rad` to `rest_rad` takes
    within_s: float = 0.0  # 0: one control period from now; else from rest to rest in this time


@dataclass(frozen=True)
class Command:
    """A setpoint that has passed the last check (`setpoint_guard.py`): what a driver may send, and nothing else."""

    q_rad: npt.NDArray[np.float64]  # (dof,)
    velocity_rad_s: npt.NDArray[np.float64]  # (dof,), with which it passes `q_rad`
    rest_rad: npt.NDArray[np.float64]  # (dof,), where it comes to rest when no further command comes
    rest_s: float  # how long that takes from `q_rad`
    gripper_m: npt.NDArray[np.float64]  # (grippers,)
    within_s: float  # when to be at `q_rad`
