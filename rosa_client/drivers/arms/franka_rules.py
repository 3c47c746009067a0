"""What the `franka` driver decides: what is a fault and what a person has to do, and how an arm recovers from one.

Pure. States come in as plain values with the time at which they arrived; the library is behind `franka_ports.py`.
Modes and errors are named as libfranka names them (`robot_state.h`, `errors.h`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rosa_client.drivers.arms import MAX_SAMPLES, ArmState, Array
from rosa_client.motion.arm_orders import Command
from rosa_client.motion.measurement import Sample

# Robot modes of libfranka.
OTHER, IDLE, MOVE, GUIDING = "other", "idle", "move", "guiding"
REFLEX, USER_STOPPED, RECOVERING = "reflex", "user_stopped", "automatic_error_recovery"

# Modes that only a person at the arm can end, and how.
FOR_A_PERSON = {
    OTHER: "the arm is not ready (robot mode other): unlock its joints and activate FCI in Desk",
    GUIDING: "the arm is guided by hand: let go of its buttons",
    USER_STOPPED: "the arm was stopped by its user: release the external activation device",
}

# What the common errors mean and what to do; libfranka names some forty.
COMMUNICATION = "this computer or the network answered too late: cable, kernel, docs/franka.md"
COLLISION = "contact: clear the cell; without contact check the end effector's mass in Desk"
JUMP = "the setpoints were not smooth, as after lost packets: lower arm.limit_share"
ERRORS = {
    "communication_constraints_violation": COMMUNICATION,
    "joint_reflex": COLLISION,
    "cartesian_reflex": COLLISION,
    "self_collision_avoidance_violation": "the arm came too close to itself: another pose",
    "joint_position_limits_violation": "a joint is beyond its range: move it back by hand in Desk",
    "joint_velocity_violation": "a joint was too fast: lower velocity_scale",
    "joint_motion_generator_position_limits_violation": "a setpoint was beyond a joint's range: check `limits`",
    "joint_motion_generator_velocity_limits_violation": "a setpoint was too fast: check `limits`",
    "joint_motion_generator_velocity_discontinuity": JUMP,
    "joint_motion_generator_acceleration_discontinuity": JUMP,
    "tau_j_range_violation": "a joint needed more torque than it has: check the load in Desk",
    "power_limit_violation": "the arm needed too much power: lower velocity_scale",
    "instability_detected": "the controller vibrated: check what is mounted on the arm in Desk",
}


def error_words(names: Sequence[str]) -> str:
    """Each error by name, with its cause and what to do where known."""
    return "; ".join(f"{name} ({ERRORS[name]})" if name in ERRORS else name for name in names)


@dataclass(frozen=True)
class Heard:
    """One robot state: `(7,)` rad, rad/s and N m, libfranka's robot mode and names of present errors."""

    q_rad: Array
    velocity_rad_s: Array
    effort_nm: Array
    mode: str
    errors: tuple[str, ...]
    robot_s: float  # the robot's own clock


class FrankaLink:
    """Everything that was heard from the arm, and what follows from it. Times are monotonic, in s."""

    def __init__(self) -> None:
        self._heard: Heard | None = None
        self._heard_s = float("-inf")
        self._samples: deque[Sample] = deque(maxlen=MAX_SAMPLES)  # since the last `state`
        self._setpoint: Array | None = None
        self._stopped = ""  # why it does not follow; empty while it does

    # -- what is heard ----------------------------------------------------------------------------------------------

    def hear(self, now_s: float, heard: Heard) -> None:
        """The newest state. One that was heard before, which a silent network leaves, does not get younger."""
        if self._heard is None or heard.robot_s != self._heard.robot_s:
            self._heard_s = now_s
            self._samples.append(Sample(heard.q_rad, now_s, heard.robot_s))
        self._heard = heard

    def follows(self) -> None:
        """The 1 kHz loop runs: the arm follows setpoints, and holds where it is until one comes."""
        self._stopped = ""
        self._setpoint = None

    def stopped(self, why: str) -> None:
        """The arm no longer follows. The first reason stays until it follows again: the others come from it."""
        self._stopped = self._stopped or why
        self._setpoint = None

    def recovering(self, step: str) -> None:
        """A recovery has come to `step`."""
        self._stopped = f"recovering: {step}"

    def recovery_failed(self, why: str) -> None:
        self._stopped = f"recovery failed: {why}"

    def sent(self, q_rad: Array) -> None:
        """The setpoint `(dof,)` that was sent last."""
        self._setpoint = q_rad

    # -- what follows -----------------------------------------------------------------------------------------------

    @property
    def heard(self) -> Heard | None:
        """The newest state, if any."""
        return self._heard

    @property
    def setpoint(self) -> Array | None:
        """The setpoint that was sent last since the arm follows."""
        return self._setpoint

    def begins(self, command: Command) -> Array | None:
        """Where the way to a command begins; None: where the library holds the arm, at a speed within `limit_share`."""
        if self._setpoint is None and self._heard is not None and command.within_s > LONG_S:
            return self._heard.q_rad  # an arm that is led on from where it stands
        return self._setpoint

    def state(self, now_s: float, gripper_m: Array, fault: str) -> ArmState:
        """The newest measurement."""
        heard = self._heard
        assert heard is not None, "asked before the first state"
        age_s = now_s - self._heard_s
        samples = tuple(self._samples)
        self._samples.clear()
        return ArmState(heard.q_rad, heard.velocity_rad_s, gripper_m, fault, heard.effort_nm, age_s, samples)

    def fault(self) -> str:
        """Why the arm cannot move, in words; empty when it can. They stay the same until a recovery begins."""
        return self._stopped


def why_stopped(heard: Heard | None, said: str) -> str:
    """Why a motion ended that nobody ended; `said` is what the library said about it."""
    if heard is not None and heard.mode in FOR_A_PERSON:
        return FOR_A_PERSON[heard.mode]
    if heard is not None and heard.errors:
        return f"the arm was stopped by a reflex: {error_words(heard.errors)}"
    return f"the arm ended its motion: {said}"


# -- recovery ---------------------------------------------------------------------------------------------------------

CONNECT, CLEAR_ERROR, FOLLOW = "connect", "clear the error", "hold the arm"


def next_step(connected: bool, follows: bool, heard: Heard | None) -> str:
    """The next step of a recovery, empty when nothing is left to do. `why_not` says what only a person can do."""
    if not connected:
        return CONNECT
    if follows:
        return ""
    if heard is not None and (heard.mode == REFLEX or heard.errors):
        return CLEAR_ERROR
    return FOLLOW


def why_not(heard: Heard | None) -> str:
    """Why no step helps in this mode, and what a person has to do; empty when one may."""
    mode = "" if heard is None else heard.mode
    if mode == MOVE:
        return "another program moves the arm: end it"
    return FOR_A_PERSON.get(mode, "")


# -- setpoints at 1 kHz ---------------------------------------------------------------------------------------------

LONG_S = 0.1  # more than a control period
ROW_S = 0.002  # every second period of the arm


def rows(before_rad: Array | None, q_rad: Array, period_s: float) -> Array:
    """The way from the last setpoint `(dof,)` to `q_rad` in steps of `ROW_S`, the last one at it: `(n, dof)` rad.

    The library moves towards the newest target as if it were to stop there. Small steps make it pass the setpoints
    instead: against franka-sim the acceleration was 1.8 rad/s^2 rms with them, 3.2 with one target per period.
    """
    if before_rad is None:
        return q_rad[None].copy()
    count = max(1, round(period_s / ROW_S))
    shares = np.arange(1, count + 1)[:, None] / count
    return before_rad + (q_rad - before_rad) * shares


# -- the hand ---------------------------------------------------------------------------------------------------------

HOMED_M = 0.01  # the hand measures its widest opening when it is homed; before, it reports none
NOT_HOMED = (
    "the hand has not been homed since it was switched on: take out what it holds; a recovery homes it,"
    " which moves the fingers"
)


def hand_fault(max_width_m: float) -> str:
    """Why the hand cannot be used yet, from the widest opening that it reports."""
    return "" if max_width_m >= HOMED_M else NOT_HOMED
