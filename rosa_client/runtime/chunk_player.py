"""What the arm does at each control period: plays the newest command, within limits, and holds when it ends.

Pure: orders and the time go in, setpoints come out. Waypoint i of a chunk is the target from i * step_s to
(i + 1) * step_s after the order was received (minus the part that it skips), as in training and evaluation
(`rosa_sim/rollout.py`); `SetpointFilter` makes it smooth and keeps position, velocity, acceleration and jerk within the
limits whatever the targets are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from rosa_client.runtime.setpoint_filter import JointLimits, SetpointFilter

Array = npt.NDArray[np.float64]

# A learned model rounds; what it may be beyond a limit is clipped, anything more is a fault and is refused.
JOINT_TOLERANCE_RAD = 0.05
GRIPPER_TOLERANCE_M = 0.02
MAX_HORIZON = 1000


class PlayerState(Enum):
    """What the arm is doing; the numbers are those of rosa_interfaces/ArmStatus."""

    HOLDING = 0
    PLAYING = 1
    MOVING = 2


@dataclass(frozen=True)
class OrderId:
    """Place of an order in the stream: a restarted sender has a greater epoch, and each order the next number."""

    epoch: int
    seq: int

    def newer_than(self, other: OrderId) -> bool:
        return (self.epoch, self.seq) > (other.epoch, other.seq)


@dataclass(frozen=True)
class Play:
    """Play a chunk: `actions` (horizon, dof + 1), joints in rad then gripper width in m, `step_s` apart."""

    actions: npt.ArrayLike
    step_s: float
    skip_s: float = 0.0  # start this far into the chunk
    execute_s: float = 0.0  # play this much of it; 0 = to its end


@dataclass(frozen=True)
class MoveTo:
    """Move to `q_rad` (dof,) and `gripper_m`, then hold."""

    q_rad: npt.ArrayLike
    gripper_m: float


@dataclass(frozen=True)
class Hold:
    """Come to rest as fast as the limits allow, and stay."""


@dataclass(frozen=True)
class Setpoint:
    """What the arm is to be at now: `q_rad` (dof,) and the gripper's width."""

    q_rad: Array
    gripper_m: float


class ChunkPlayer:
    """Plays one order at a time; a newer one replaces it at once, an older or impossible one changes nothing."""

    def __init__(self, limits: JointLimits, gripper_range_m: tuple[float, float], rate_hz: float) -> None:
        self._filter = SetpointFilter(limits, rate_hz)
        self._limits = limits
        self._gripper_range_m = gripper_range_m
        self.state = PlayerState.HOLDING
        self.last = OrderId(0, 0)
        self._gripper_m = gripper_range_m[1]
        self._target = Setpoint(np.zeros(limits.dof), self._gripper_m)
        self._stopping = True  # holding where the ramp was frozen, rather than at _target
        self._waypoints: Array = np.zeros((1, limits.dof + 1))  # of the chunk that plays
        self._step_s = 1.0
        self._begin_s = 0.0  # when the chunk's time 0 is or would have been
        self._end_s = 0.0

    def reset(self, q_rad: npt.ArrayLike, gripper_m: float) -> None:
        """Hold at `q_rad` (dof,), where the arm does stand."""
        self._filter.reset(q_rad)
        self._gripper_m = gripper_m
        self._rest()

    @property
    def gripper_m(self) -> float:
        """The width last commanded, m."""
        return self._gripper_m

    @property
    def settled(self) -> bool:
        """Whether the commanded position no longer changes."""
        return self.state is PlayerState.HOLDING and self._filter.settled

    def remaining_s(self, now_s: float) -> float:
        """Time until the chunk ends; 0 when holding, NaN for a move (it lasts as long as the limits make it)."""
        if self.state is PlayerState.MOVING:
            return math.nan
        return max(0.0, self._end_s - now_s) if self.state is PlayerState.PLAYING else 0.0

    def order(self, now_s: float, number: OrderId, what: Play | MoveTo | Hold) -> str:
        """Take an order; returns why it was refused, or the empty text. A refused order changes nothing but, when it
        was in turn, its number: the sender meant the arm to leave what it did before, so the arm then holds."""
        if not number.newer_than(self.last):
            return f"order {number.epoch}:{number.seq} is not newer than {self.last.epoch}:{self.last.seq}"
        self.last = number
        refusal = self._refusal(what)
        if refusal or isinstance(what, Hold):
            self._rest()
        elif isinstance(what, Play):
            self._play(now_s, what)
        else:
            self._target = Setpoint(
                np.asarray(what.q_rad, dtype=np.float64), self._clip_gripper(what.gripper_m)
            )
            self._stopping = False
            self.state = PlayerState.MOVING
        return refusal

    def update(self, now_s: float) -> Setpoint:
        """The setpoint of this control period; call it once per period."""
        if self.state is PlayerState.PLAYING:
            if now_s < self._end_s:
                index = int((now_s - self._begin_s) / self._step_s + 1e-6)
                waypoint = self._waypoints[min(index, len(self._waypoints) - 1)]
                self._target = Setpoint(waypoint[:-1], self._clip_gripper(float(waypoint[-1])))
            else:  # the last waypoint of the part that was to be executed stays the target
                self.state = PlayerState.HOLDING
        if self._stopping:
            return Setpoint(self._filter.hold(), self._gripper_m)
        self._gripper_m = self._target.gripper_m
        q = self._filter.step(self._target.q_rad)
        if self.state is PlayerState.MOVING and self._filter.settled:
            self.state = PlayerState.HOLDING
        return Setpoint(q, self._gripper_m)

    def _play(self, now_s: float, play: Play) -> None:
        self._waypoints = np.asarray(play.actions, dtype=np.float64)
        self._step_s = play.step_s
        self._begin_s = now_s - play.skip_s
        self._end_s = self._begin_s + play.step_s * len(self._waypoints)
        if play.execute_s > 0:
            self._end_s = min(self._end_s, now_s + play.execute_s)
        self._stopping = False
        self.state = PlayerState.PLAYING

    def _rest(self) -> None:
        self._stopping = True
        self.state = PlayerState.HOLDING

    def _clip_gripper(self, width_m: float) -> float:
        return min(max(width_m, self._gripper_range_m[0]), self._gripper_range_m[1])

    def _refusal(self, what: Play | MoveTo | Hold) -> str:
        if isinstance(what, Hold):
            return ""
        width = self._limits.dof + 1
        if isinstance(what, MoveTo):
            target = np.append(np.asarray(what.q_rad, dtype=np.float64), what.gripper_m)
            return self._row_refusal(target[None], "target")
        times = {"step_s": what.step_s, "skip_s": what.skip_s, "execute_s": what.execute_s}
        if not (all(math.isfinite(v) and v >= 0 for v in times.values()) and what.step_s > 0):
            return f"chunk: expected finite step_s > 0, skip_s >= 0 and execute_s >= 0, got {times}"
        actions = np.asarray(what.actions, dtype=np.float64)
        if actions.ndim != 2 or actions.shape[1] != width or not 1 <= len(actions) <= MAX_HORIZON:
            return f"chunk: expected (1..{MAX_HORIZON}, {width}) numbers, got {actions.shape}"
        if what.skip_s >= what.step_s * len(actions):
            return f"chunk: it is {what.step_s * len(actions):g} s long, but {what.skip_s:g} s of it are to be skipped"
        return self._row_refusal(actions, "chunk")

    def _row_refusal(self, rows: Array, name: str) -> str:
        """Why `rows` (n, dof + 1) cannot be moved to; names the first offending value."""
        if rows.shape[1] != self._limits.dof + 1:
            return (
                f"{name}: expected {self._limits.dof} joints and a gripper width, got {rows.shape[1]} numbers"
            )
        low = np.append(np.asarray(self._limits.lower_rad) - JOINT_TOLERANCE_RAD, self._gripper_range_m[0])
        high = np.append(np.asarray(self._limits.upper_rad) + JOINT_TOLERANCE_RAD, self._gripper_range_m[1])
        low[-1] -= GRIPPER_TOLERANCE_M
        high[-1] += GRIPPER_TOLERANCE_M
        bad = ~((rows >= low) & (rows <= high))  # also true where a number is not finite
        if not bad.any():
            return ""
        row, column = (int(i) for i in np.argwhere(bad)[0])
        part = "gripper" if column == self._limits.dof else f"joint {column + 1}"
        return (
            f"{name}: waypoint {row}, {part} is {rows[row, column]:g}, expected {low[column]:g}..{high[column]:g} "
            f"({int(bad.sum())} of {bad.size} values are impossible)"
        )
