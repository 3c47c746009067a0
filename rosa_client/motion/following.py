"""What an arm gets around a fault: how its setpoints end, and how it is led on afterwards.

While nothing is wrong the arm gets a setpoint each control period. A fault brings the setpoints to rest, and then the
arm gets none. Where its driver reports the fault, `ControlLoop` leaves out those that come to rest: its controller may
have been stopped, and a later setpoint would be a jump for it. When the fault is over and the arm is at its last
setpoint, it goes on there. It may stand elsewhere, since it sagged, was moved by hand or is held, or because the
measurement lies. Then a person has to say that it is to be led on from where it stands (`recover`); no measurement
alone moves an arm. Once that was said:

- Its controller was active all the time and still holds the last setpoint. The setpoints return from there to where the
  arm stands, at working speed.
- Its controller may have been stopped meanwhile, and then begins where the arm stands. A setpoint near the last one
  would be a jump for the arm, and one where it is measured to be a jump if the measurement lies. So the arm gets one
  command: to be where it is measured to be, after the time that the way there from the last setpoint takes at working
  speed. An arm that stands there does not move at all, one that stands at its last setpoint moves there slowly.

An event that a state does not name raises and changes nothing.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from rosa_client.motion.arm_orders import Setpoint
from rosa_client.motion.emergency_stop import STOPPED
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.refusal import Refusal
from rosa_client.motion.setpoint_filter import WORKING_SPEED, SetpointFilter

Array = NDArray[np.float64]

OFF_RAD = 0.02  # an arm that is no further than this from its setpoint after a fault keeps it
DRIVER = "arm_driver"  # cause of a fault that the driver reports: its controller may have been stopped
ELSEWHERE = "arm_elsewhere"
RETURNS = "arm_returns"
# A controller that was stopped gets at least this long for its first command, as the arm may stand elsewhere.
LEAD_S = 1.0
RECOVER_WITHIN_S = 30.0  # what a person said counts for this long


class Follow(Enum):
    """What the arm gets."""

    SETPOINTS = "setpoints"
    STOPPING = "setpoints that slow down to rest"
    NOTHING = "nothing"
    RETURNING = "setpoints that return to the arm's actual position"
    LED = "a single command that takes it to its measured position"


class Event(Enum):
    """What happens to it."""

    FAULT = "the arm cannot move, its position is unknown, or it was stopped"
    RESTED = "the setpoints have stopped changing"
    NEAR = "the fault is over, and the arm is at its last setpoint"
    MOVED = "the fault is over; the controller still holds the last setpoint, but the arm is elsewhere"
    LET_GO = "the fault is over, and the controller may have been stopped"
    ARRIVED = "the time given to that command has passed"


TRANSITIONS = {
    (Follow.SETPOINTS, Event.FAULT): Follow.STOPPING,
    (Follow.STOPPING, Event.FAULT): Follow.STOPPING,
    (Follow.STOPPING, Event.RESTED): Follow.NOTHING,
    (Follow.NOTHING, Event.FAULT): Follow.NOTHING,
    (Follow.NOTHING, Event.NEAR): Follow.SETPOINTS,
    (Follow.NOTHING, Event.MOVED): Follow.RETURNING,
    (Follow.NOTHING, Event.LET_GO): Follow.LED,
    (Follow.RETURNING, Event.FAULT): Follow.STOPPING,
    (Follow.RETURNING, Event.RESTED): Follow.SETPOINTS,
    (Follow.LED, Event.FAULT): Follow.NOTHING,
    (Follow.LED, Event.ARRIVED): Follow.SETPOINTS,
}


def after(state: Follow, event: Event) -> Follow:
    """The next state. Raises `ValueError` for an event that cannot happen in `state`."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"{event.name} cannot happen to an arm in {state.name}") from None


class Following:
    """Which setpoints an arm gets around a fault; those of its orders come from `ChunkPlayer`."""

    def __init__(self, path: SetpointFilter, limits: MotionLimits, leads: bool) -> None:
        """`path` makes the setpoints. `leads`: the arm can be told when to be at a setpoint, and moves there evenly."""
        self._path = path
        self._limits = limits
        self._leads = leads
        self.begin()

    def begin(self) -> None:
        """The arm stands at the setpoint, and nothing is wrong."""
        self.gets = Follow.SETPOINTS
        self._let_go = False  # since the last command the controller may have been stopped
        self._there_rad: Array = np.zeros(0)
        self._leading: Setpoint | None = None  # the command that leads the arm elsewhere, until it is sent
        self._arrives_s = 0.0  # when that command is over
        self._waits: Refusal | None = None
        self._recover_until_s = -math.inf  # a person said that the arm is to be led on from where it stands

    def recover(self, now_s: float) -> None:
        """A person says that the arm is to be led on from where it stands, once its fault is over.

        While nothing is wrong there is nothing to recover, and it must not count for a fault that comes later.
        """
        if self.gets is not Follow.SETPOINTS:
            self._recover_until_s = now_s + RECOVER_WITHIN_S

    def fault(self, fault: Refusal) -> None:
        """Something is wrong with the arm, or it is stopped while it is led on."""
        self._let_go |= fault.cause == DRIVER
        if fault is STOPPED:
            self._recover_until_s = -math.inf
        self._waits = None
        if self._leading is not None:  # it has not left, and never will
            self._leading, self._arrives_s = None, -math.inf
        self._turn(Event.FAULT)

    def well(self, now_s: float, q_rad: Array, stopped: bool, gripper_m: Array) -> Refusal | None:
        """No fault is reported and the arm is at `q_rad` (dof,); returns why it takes no orders yet.

        Causes: arm_elsewhere, arm_returns. `stopped`: the emergency stop is latched, or its node is inactive.
        """
        if self.gets is Follow.LED and now_s >= self._arrives_s:
            self._turn(Event.ARRIVED)
        # A controller finishes what it was sent last: what comes next has to begin there.
        if self.gets is Follow.NOTHING and now_s < self._arrives_s:
            self._waits = Refusal(RETURNS, "its controller finishes the command that leads it on")
        elif self.gets is Follow.NOTHING:
            self._go_on(now_s, q_rad, stopped, gripper_m)
        if self.gets is Follow.SETPOINTS:
            self._let_go, self._waits, self._recover_until_s = False, None, -math.inf
        return self._waits

    def setpoint(self, gripper_m: Array) -> Setpoint | None:
        """For this control period, in every state but SETPOINTS; None for nothing."""
        if self.gets is Follow.STOPPING and self._path.settled:
            self._turn(Event.RESTED)
        if self.gets is Follow.STOPPING:
            return self._at(self._path.hold(), gripper_m)
        if self.gets is Follow.RETURNING:
            setpoint = self._at(self._path.step(self._there_rad), gripper_m)
            if self._path.settled:
                self._turn(Event.RESTED)
            return setpoint
        leading, self._leading = self._leading, None
        if leading is not None:  # it leaves now
            self._path.reset(leading.q_rad)
        return leading

    def _at(self, q_rad: Array, gripper_m: Array) -> Setpoint:
        return Setpoint(q_rad, gripper_m, self._path.goes_to, self._path.stop_s)

    def _go_on(self, now_s: float, q_rad: Array, stopped: bool, gripper_m: Array) -> None:
        here = self._path.setpoint
        away_rad = float(np.abs(q_rad - here).max())
        if away_rad <= OFF_RAD:
            if self._let_go and self._leads:  # it goes on where it was told to be, and not at once
                self._lead(now_s, here, gripper_m)
            else:
                self._turn(Event.NEAR)
            return
        if why := self._why_not(now_s, q_rad, stopped):
            if self._waits is None or not self._waits.reason.endswith(why):  # the words stay while it lasts
                stands = f"the arm stands {away_rad:.2f} rad from its last setpoint"
                self._waits = Refusal(ELSEWHERE, f"{stands}: {why}")
            return
        joints = self._limits.joints
        self._there_rad = np.clip(q_rad, joints.position_min_rad, joints.position_max_rad)
        if self._let_go:
            self._lead(now_s, self._there_rad, gripper_m)
        else:
            self._waits = Refusal(RETURNS, "the setpoints return to where the arm stands")
            self._turn(Event.MOVED)

    def _lead(self, now_s: float, there_rad: Array, gripper_m: Array) -> None:
        within_s = max(LEAD_S, self._way_s(there_rad - self._path.setpoint))
        self._arrives_s = now_s + within_s
        self._leading = Setpoint(there_rad, gripper_m, there_rad, 0.0, within_s)
        self._waits = Refusal(RETURNS, f"the arm is led on from where it stands, for {within_s:.1f} s")
        self._turn(Event.LET_GO)

    def _why_not(self, now_s: float, q_rad: Array, stopped: bool) -> str:
        """Why an arm that is not at its last setpoint gets nothing, and what a person has to do; empty when it may."""
        if self._let_go and not self._leads:
            return "its controller would jump: put it back, or start its arm node again"
        row = np.append(q_rad, self._limits.open_m)
        if (refusal := self._limits.refusal(row[None], "it", self._path.setpoint)) is not None:
            return f"{refusal.cause}: put it back, or start its arm node again"
        if stopped:
            return (
                "release the emergency stop, activate its node, and recover it, which leads it on from there"
            )
        if now_s > self._recover_until_s:
            return "recover it, which leads it on from there"
        return ""

    def _way_s(self, way_rad: Array) -> float:
        """How long a way `(dof,)` from rest to rest takes at working speed, by a cubic polynomial."""
        joints, share = self._limits.joints, WORKING_SPEED * self._path.scale
        far = np.abs(way_rad)
        by_speed = 1.5 * far / (share * np.array(joints.velocity_rad_s))
        by_force = np.sqrt(6.0 * far / (share * np.array(joints.acceleration_rad_s2)))
        return float(max(by_speed.max(), by_force.max()))

    def _turn(self, event: Event) -> None:
        self.gets = after(self.gets, event)
