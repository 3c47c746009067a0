"""The orders that an arm takes, and the states that it reports: the vocabulary of `chunk_player.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt


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
    """Play a chunk: `actions` (horizon, dof + grippers), joints in rad then widths in m, `step_s` apart."""

    actions: npt.ArrayLike
    step_s: float
    skip_s: float = 0.0  # start this far into the chunk
    execute_s: float = 0.0  # play this much of it; 0 = to its end


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
