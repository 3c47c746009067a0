"""What the arm does at each control period: plays the newest order within limits, and holds when it ends.

Pure: orders and the time go in, setpoints come out. Waypoint i of a chunk is the target from i * step_s to
(i + 1) * step_s after the order was received (minus the part that it skips), as in training and evaluation
(`rosa_sim/cell/rollout.py`); `SetpointFilter` makes it smooth and keeps position, velocity, acceleration and jerk
within the limits whatever the targets are. With a velocity scale below 1 the chunk's own time runs slower by as much,
so that the arm passes the same places and the gripper closes at the same one.

Whatever server and runtime do, the arm holds by itself when it gets no sign of life from its sender (`ALIVE_WITHIN_S`),
when the emergency stop is pressed, when its driver reports a fault or its position is not certain, and before it would
leave its workspace. After a fault it goes on as `following.py` says: never by a jump of the setpoint.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rosa_client.motion.arm_orders import (
    ROUNDING,
    Hold,
    MoveTo,
    Order,
    OrderId,
    Play,
    PlayerState,
    Setpoint,
    Unreadable,
    row_at,
)
from rosa_client.motion.emergency_stop import STOPPED, EmergencyStop
from rosa_client.motion.following import RETURNS, Follow, Following
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.refusal import Refusal
from rosa_client.motion.setpoint_filter import SetpointFilter

Array = npt.NDArray[np.float64]

ALIVE_WITHIN_S = 0.1  # an arm that moves holds when its sender was silent for this long
SILENT = f"no sign of life from the runtime for {ALIVE_WITHIN_S:g} s"
GUARD_M = 0.002  # the path is checked in steps beforehand; between them it may leave the box by this much
OFF_DUTY = "off_duty"


class ChunkPlayer:
    """Plays one order at a time: a newer one replaces it at once, an older one changes nothing, an impossible one is
    refused and the arm holds."""

    def __init__(
        self,
        limits: MotionLimits,
        rate_hz: float,
        velocity_scale: float = 1.0,
        emergency_stop: EmergencyStop | None = None,
        leads: bool = True,
    ) -> None:
        """`emergency_stop`: a latch that outlives this player; none: its own. `leads`: the arm can be told when to be
        at a setpoint, and moves there evenly."""
        self._filter = SetpointFilter(limits.joints, rate_hz)
        self._filter.scale = velocity_scale
        self.limits = limits
        self._dof = limits.joints.dof
        self.emergency_stop = emergency_stop if emergency_stop is not None else EmergencyStop()
        self.state = PlayerState.HOLDING
        self.last = OrderId(0, 0)
        self.cut_short = ""  # why the last order did not run to its end
        self._refused: Refusal | None = None  # why the last order was refused
        self._fault: Refusal | None = None  # why the arm cannot be moved
        self._off_duty: Refusal | None = None  # why it takes no orders although the arm could
        self._following = Following(self._filter, limits, leads)
        self._gripper_m: Array = limits.open_m  # (grippers,)
        self._target_rad: Array = np.zeros(limits.joints.dof)
        self._target_m = self._gripper_m
        self._stopping = True  # holding where the ramp was frozen, rather than at _target
        self._leeway_m = GUARD_M  # how far the ramp may leave the workspace; more when the arm began outside
        self._alive_s = -math.inf  # the sender's last sign of life
        self._waypoints: Array = np.zeros((1, limits.columns))  # of the chunk that plays
        self._from_rad: Array = np.zeros(limits.joints.dof)  # where it began
        self._step_s = 1.0
        self._end_s = 0.0  # in the chunk's time
        self._anchor_s = (0.0, 0.0)  # a moment, and the chunk's time then

    def reset(self, q_rad: npt.ArrayLike, gripper_m: npt.ArrayLike) -> None:
        """Hold at `q_rad` (dof,), where the arm really stands: at the start, or when a simulated arm was put there.

        `gripper_m` (grippers,), or one number for each.
        """
        self._filter.reset(q_rad)
        self._following.begin()
        self._fault = None
        self._gripper_m = self._clip_gripper(gripper_m)
        self._leeway_m = GUARD_M + max(0.0, self.limits.depth_m(q_rad))
        self.cut_short, self._refused = "", None
        self._rest()

    def stand(self, q_rad: Array) -> None:
        """The arm has come to rest at `q_rad` (dof,), since its controller was told nothing for a while: what it does
        goes on from there."""
        self._filter.reset(q_rad)

    @property
    def settled(self) -> bool:
        """Whether the commanded position no longer changes."""
        return self.state is PlayerState.HOLDING and self._filter.settled

    @property
    def reported(self) -> PlayerState:
        """`state`, or RETURNING while no order moves the arm because it is led on after a fault."""
        returns = self._fault is not None and self._fault.cause == RETURNS
        return PlayerState.RETURNING if returns else self.state

    @property
    def fault(self) -> str:
        """Why the arm cannot move, or why it refused the last order; empty when all is well."""
        return "" if self._trouble is None else self._trouble.reason

    @property
    def fault_cause(self) -> str:
        """Machine-readable cause of `fault`; empty when all is well."""
        return "" if self._trouble is None else self._trouble.cause

    @property
    def _trouble(self) -> Refusal | None:
        return self._fault or self._off_duty or self._refused

    @property
    def returns(self) -> bool:
        """Whether the setpoints return to where the arm stands, so that it cannot be at them yet."""
        return self._following.gets is Follow.RETURNING

    @property
    def velocity_scale(self) -> float:
        return self._filter.scale

    def slow_down(self, now_s: float, share: float) -> None:
        """From now on move with `share` (0..1] of the working speed. Raises `ValueError` for anything else."""
        self._anchor_s = (now_s, self._chunk_s(now_s))
        self._filter.scale = share

    def remaining_s(self, now_s: float) -> float:
        """Time until the chunk ends; 0 when holding, NaN for a move (it lasts as long as the limits make it)."""
        if self.state is PlayerState.MOVING:
            return math.nan
        left_s = (self._end_s - self._chunk_s(now_s)) / self._filter.scale
        return max(0.0, left_s) if self.state is PlayerState.PLAYING else 0.0

    def order(self, now_s: float, number: OrderId, what: Order) -> Refusal | None:
        """Take an order; returns why it was refused.

        An order that is not newer than the last one changes nothing. A new one that is refused makes the arm hold,
        since its sender meant it to leave what it did before. Causes: those of `MotionLimits.refusal`, and old_order,
        unreadable, emergency_stop, off_duty, arm_fault, chunk_time.
        """
        if not number.newer_than(self.last):
            last = f"{self.last.epoch}:{self.last.seq}"
            return Refusal("old_order", f"order {number.epoch}:{number.seq} is not newer than {last}")
        self.last = number
        self._alive_s = now_s
        self._refused = self._refusal(what)
        if self._refused is not None or isinstance(what, Hold):
            self._rest()
        elif isinstance(what, Play):
            self._play(now_s, what)
        elif isinstance(what, MoveTo):
            self._move(what)
        if self._refused is None:
            self.cut_short = ""
        return self._refused

    def alive(self, now_s: float, number: OrderId) -> None:
        """A sign of life. It counts only for the newest order and from its sender."""
        if number == self.last:
            self._alive_s = max(self._alive_s, now_s)

    def come_to_rest(self, why: str) -> None:
        """Stop what is under way and hold; `why` is reported as the reason for which it was cut short."""
        self._cut(why)

    def go_off_duty(self, why: str) -> None:
        """Come to rest, hold, and refuse every order that moves until `go_on_duty`."""
        self._cut(why)
        self._off_duty = Refusal(OFF_DUTY, why)
        self._stop_following()

    def go_on_duty(self) -> None:
        """Take orders again. Nothing moves by this, and what was under way or refused before is over."""
        self._off_duty = None
        if self._refused is not None and self._refused.cause == OFF_DUTY:
            self._refused = None

    def press_emergency_stop(self, source: str) -> bool:
        """Hold and refuse every order that moves until a person releases; returns whether it was not latched before."""
        self._cut("the emergency stop was pressed")
        self._stop_following()
        return self.emergency_stop.press(source)

    def _stop_following(self) -> None:
        """An arm that is led on from where it stands stops too."""
        if self._following.gets is not Follow.SETPOINTS:
            self._following.fault(STOPPED)

    def release_emergency_stop(self, decided_by: str, why: str) -> Refusal | None:
        """Take orders again; returns why not. Nothing moves by this."""
        refusal = self.emergency_stop.release(decided_by, why)
        if refusal is None and self._refused == STOPPED:
            self._refused = None
        return refusal

    def recover(self, now_s: float) -> None:
        """A person says that an arm that does not stand at its last setpoint is to be led on from where it stands."""
        self._following.recover(now_s)

    def sense(self, now_s: float, q_rad: Array, fault: Refusal | None) -> None:
        """What is known of the arm. Nothing that is measured changes the setpoint but here, and as `following.py` says.

        `q_rad` (dof,) is its newest position that counts; `fault` says why it cannot move, or why its position is not
        certain.
        """
        if fault is not None:
            self.fail(fault)
        elif self._fault is not None:
            stopped = self.emergency_stop.latched or self._off_duty is not None
            waits = self._following.well(now_s, q_rad, stopped, self._gripper_m)
            goes_on = self._following.gets is Follow.SETPOINTS
            if waits is not None or goes_on:  # else it still comes to rest for the fault that was
                self._fault = waits
            if goes_on and self._refused is not None:  # it holds, but has not done what was ordered
                self.cut_short, self._refused = self._refused.reason, None

    def fail(self, fault: Refusal) -> None:
        """The arm cannot move: hold, get nothing more, and refuse orders until it can again."""
        if self._fault is None:
            self._cut(f"the arm reports: {fault.reason}")
        self._fault = fault
        self._following.fault(fault)

    def update(self, now_s: float) -> Setpoint | None:
        """The setpoint of this control period, None when the arm is to get none; call it once per period."""
        self._watch(now_s)
        if self._following.gets is not Follow.SETPOINTS:
            return self._following.setpoint(self._gripper_m)
        if self.state is PlayerState.PLAYING:
            self._follow(now_s)
        if not self._stopping:
            self._keep_inside()
        if self._stopping:
            q_rad = self._filter.hold()
        else:
            self._gripper_m = self._target_m
            q_rad = self._filter.step(self._target_rad)
            if self.state is PlayerState.MOVING and self._filter.settled:
                self.state = PlayerState.HOLDING
        return Setpoint(q_rad, self._gripper_m, self._filter.goes_to, self._filter.stop_s)

    # -- orders -----------------------------------------------------------------------------------------------------

    def _refusal(self, what: Order) -> Refusal | None:
        if isinstance(what, Unreadable):
            return Refusal("unreadable", what.why)
        if isinstance(what, Hold):  # always possible
            return None
        if self.emergency_stop.latched:
            return STOPPED
        if self._off_duty is not None:
            return self._off_duty
        if self._fault is not None:
            return Refusal("arm_fault", f"the arm cannot move: {self._fault}")
        start = self._filter.goes_to
        if isinstance(what, MoveTo):
            return self.limits.refusal(self._row(what)[None], "target", start)
        times = {"step_s": what.step_s, "skip_s": what.skip_s, "execute_s": what.execute_s}
        if not (all(math.isfinite(v) and v >= 0 for v in times.values()) and what.step_s > 0):
            reason = f"chunk: expected finite step_s > 0, skip_s >= 0 and execute_s >= 0, got {times}"
            return Refusal("chunk_time", reason)
        if what.skip_s > 0 and what.velocity_scale not in (None, self.velocity_scale):
            reason = (
                f"chunk: it joins another one in mid-motion, as counted with the robot file's velocity_scale "
                f"{what.velocity_scale:g}, but the arm moves with {self.velocity_scale:g}; set that back, or change "
                "the file"
            )
            return Refusal("chunk_time", reason)
        refusal = self.limits.refusal(what.actions, "chunk", start)
        long_s = what.step_s * len(np.atleast_1d(np.asarray(what.actions)))
        if refusal is None and what.skip_s >= long_s:
            reason = f"chunk: it is {long_s:g} s long, but {what.skip_s:g} s of it are to be skipped"
            return Refusal("chunk_time", reason)
        return refusal

    def _row(self, move: MoveTo) -> Array:
        asked = np.asarray(move.gripper_m, dtype=np.float64)
        if asked.ndim == 0:
            asked = np.full(len(self.limits.grippers), asked)
        if asked.shape == self._gripper_m.shape:
            asked = np.where(np.isnan(asked), self._clip_gripper(self._gripper_m), asked)
            asked = np.where(np.isposinf(asked), self.limits.open_m, asked)
        return np.concatenate([np.asarray(move.q_rad, dtype=np.float64).ravel(), asked.ravel()])

    def _move(self, move: MoveTo) -> None:
        row = self._row(move)
        self._target_rad, self._target_m = row[: self._dof], self._clip_gripper(row[self._dof :])
        self._stopping = False
        self.state = PlayerState.MOVING

    def _play(self, now_s: float, play: Play) -> None:
        self._waypoints = np.asarray(play.actions, dtype=np.float64)
        self._from_rad = self._filter.goes_to
        self._step_s = play.step_s
        self._anchor_s = (now_s, play.skip_s)
        self._end_s = play.step_s * len(self._waypoints)
        if play.execute_s > 0:
            self._end_s = min(self._end_s, play.skip_s + play.execute_s)
        self._stopping = False
        self.state = PlayerState.PLAYING

    # -- each period ------------------------------------------------------------------------------------------------

    def _watch(self, now_s: float) -> None:
        """Stop all motion when the sender is silent, also the rest of a chunk whose time has ended."""
        if self._stopping or now_s - self._alive_s < ALIVE_WITHIN_S:
            return
        if self.state is PlayerState.HOLDING:
            self._rest()
        else:
            self._cut(SILENT)

    def _follow(self, now_s: float) -> None:
        slots = min(self._chunk_s(now_s), self._end_s) / self._step_s
        ended = slots >= self._end_s / self._step_s - ROUNDING
        if ended:  # the last executed waypoint stays the target
            self.state = PlayerState.HOLDING
        index = row_at(self._chunk_s(now_s), self._end_s, self._step_s, len(self._waypoints))
        q_rad = self._waypoints[index, : self._dof]
        if (
            self._filter.scale < 1.0 and not ended
        ):  # each waypoint then lasts longer; without interpolation the arm would stop at each
            before = self._waypoints[index - 1, : self._dof] if index else self._from_rad
            q_rad = before + (slots - index) * (q_rad - before)
        self._target_rad, self._target_m = q_rad, self._clip_gripper(self._waypoints[index, self._dof :])

    def _keep_inside(self) -> None:
        """Stop before the ramp leaves the workspace.

        The order was checked along straight lines, but the ramp cuts corners, and an arm that began outside may only
        come in.
        """
        ahead = self._filter.ahead(self._target_rad)
        depth_m = self.limits.depth_m(ahead)
        if depth_m > self._leeway_m:
            self._cut(f"the path leaves the workspace: {self.limits.place(ahead)}")
        self._leeway_m = max(GUARD_M, min(self._leeway_m, depth_m + GUARD_M))

    def _chunk_s(self, now_s: float) -> float:
        """The chunk's own time, which runs slower than the clock when the arm is slowed down."""
        moment_s, chunk_s = self._anchor_s
        return chunk_s + (now_s - moment_s) * self._filter.scale

    def _cut(self, why: str) -> None:
        if not (self._stopping or self.settled):
            self.cut_short = why
        self._rest()

    def _rest(self) -> None:
        self._stopping = True
        self.state = PlayerState.HOLDING

    def _clip_gripper(self, widths_m: npt.ArrayLike) -> Array:
        return np.clip(np.asarray(widths_m, np.float64), self.limits.closed_m, self.limits.open_m)
