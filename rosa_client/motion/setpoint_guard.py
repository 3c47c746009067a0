"""The last check before a driver sends: each command against every limit, whatever led to it.

It shares nothing with what makes setpoints (`setpoint_filter.py`) but the robot's limits: it looks only at what was
sent before and at what is to be sent now.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rosa_client.motion.arm_orders import Command, Setpoint
from rosa_client.motion.limits import MotionLimits
from rosa_client.refusal import Refusal

Array = NDArray[np.float64]

ROUNDING = 1.001  # on velocity, acceleration and jerk: what differences of floating-point numbers lose
STILL = 1e-6  # rad per period: what a filter at rest may still creep
MAX_OUTSIDE_M = 0.005  # a setpoint on its way may be this far outside the workspace


class SetpointGuard:
    """Turns setpoints into commands, or refuses them. Once it has refused one it refuses all until `begin`."""

    def __init__(self, limits: MotionLimits, rate_hz: float) -> None:
        self._limits = limits
        self._period_s = 1.0 / rate_hz
        joints = limits.joints
        self._joints_low, self._joints_high = (
            np.array(joints.position_min_rad),
            np.array(joints.position_max_rad),
        )
        self._velocity = np.array(joints.velocity_rad_s) * ROUNDING + STILL * rate_hz
        self._acceleration = np.array(joints.acceleration_rad_s2) * ROUNDING + STILL * rate_hz**2
        self._jerk = np.array(joints.jerk_rad_s3) * ROUNDING + STILL * rate_hz**3
        self._refusal: Refusal | None = None
        self.begin(np.zeros(joints.dof))

    def begin(self, q_rad: Array) -> None:
        """The arm stands still at `q_rad` (dof,), and was commanded nowhere else."""
        self._sent = self._rest = np.array(q_rad)
        # An arm that begins outside a limit may come in, but never goes farther out.
        self._low, self._high = np.minimum(self._joints_low, q_rad), np.maximum(self._joints_high, q_rad)
        self._sent_velocity: Array = np.zeros(len(q_rad))
        self._sent_acceleration: Array = np.zeros(len(q_rad))
        self._allowed_m = max(MAX_OUTSIDE_M, self._limits.depth_m(q_rad) + MAX_OUTSIDE_M)
        self._placed: Array = np.zeros((0, len(q_rad)))  # checked last against the workspace
        self._refusal = None

    def pause(self) -> None:
        """Nothing is sent in this period: the arm rests at what was sent last."""
        self._sent_velocity = np.zeros_like(self._sent)
        self._sent_acceleration = np.zeros_like(self._sent)

    def stand(self, q_rad: Array) -> None:
        """Nothing was sent for so long that the arm stands at `q_rad` (dof,), where the last command has led it.

        Raises `ValueError` for another place.
        """
        if not (np.array_equal(q_rad, self._sent) or np.array_equal(q_rad, self._rest)):
            raise ValueError(f"an arm cannot have come to rest at {q_rad}: it was sent to {self._sent}")
        self._sent = self._rest = q_rad
        self.pause()

    @property
    def refusal(self) -> Refusal | None:
        """Why nothing is sent any more; None while all is well."""
        return self._refusal

    def check(self, setpoint: Setpoint) -> Command | Refusal:
        """The command for a driver, or why it is not sent. Causes: setpoint_not_finite, setpoint_position,
        setpoint_velocity, setpoint_acceleration, setpoint_jerk, setpoint_workspace, setpoint_gripper."""
        if self._refusal is None:
            self._refusal = self._why_not(setpoint)
        if self._refusal is not None:
            return self._refusal
        period_s = setpoint.within_s or self._period_s
        velocity = (setpoint.q_rad - self._sent) / period_s
        if setpoint.within_s:  # it ends at rest
            velocity = np.zeros_like(velocity)
        self._sent_acceleration = (velocity - self._sent_velocity) / period_s
        self._sent, self._rest, self._sent_velocity = setpoint.q_rad, setpoint.rest_rad, velocity
        self._low = np.minimum(self._joints_low, np.maximum(self._low, self._sent))
        self._high = np.maximum(self._joints_high, np.minimum(self._high, self._sent))
        return Command(
            setpoint.q_rad, velocity, setpoint.rest_rad, setpoint.rest_s, setpoint.gripper_m, period_s
        )

    def _why_not(self, setpoint: Setpoint) -> Refusal | None:
        q, rest = setpoint.q_rad, setpoint.rest_rad
        if q.shape != self._low.shape or rest.shape != q.shape:
            return Refusal(
                "setpoint_not_finite", f"a setpoint has shape {q.shape}, expected {self._low.shape}"
            )
        if not (np.isfinite(q).all() and np.isfinite(rest).all()):
            return Refusal("setpoint_not_finite", f"a setpoint is not finite: {q}")
        return (
            self._beyond("position", np.maximum(self._low - q, q - self._high), STILL, "rad")
            or self._beyond("position", np.maximum(self._low - rest, rest - self._high), STILL, "rad")
            or self._motion(setpoint)
            or self._place(np.stack([q, rest]))
            or self._gripper(setpoint.gripper_m)
        )

    def _motion(self, setpoint: Setpoint) -> Refusal | None:
        way = setpoint.q_rad - self._sent
        if setpoint.within_s:  # from rest to rest by a cubic polynomial
            long_s = setpoint.within_s
            velocity, acceleration = 1.5 * way / long_s, 6.0 * way / long_s**2
            jerk = np.zeros_like(way)
            if np.abs(self._sent_velocity).max() > STILL / self._period_s:
                return Refusal("setpoint_velocity", "an arm in motion was to be led elsewhere")
        else:
            velocity = way / self._period_s
            acceleration = (velocity - self._sent_velocity) / self._period_s
            jerk = (acceleration - self._sent_acceleration) / self._period_s
        return (
            self._beyond("velocity", np.abs(velocity), self._velocity, "rad/s")
            or self._beyond("acceleration", np.abs(acceleration), self._acceleration, "rad/s^2")
            or self._beyond("jerk", np.abs(jerk), self._jerk, "rad/s^3")
        )

    def _place(self, places: Array) -> Refusal | None:
        """`places` (2, dof): the setpoint, and where the arm would come to rest."""
        if np.array_equal(places, self._placed):
            return None
        depths_m = self._limits.depths_m(places)
        if depths_m.max() > self._allowed_m:
            worst = places[int(np.argmax(depths_m))]
            return Refusal(
                "setpoint_workspace", f"a setpoint leaves the workspace: {self._limits.place(worst)}"
            )
        self._placed = places
        self._allowed_m = min(self._allowed_m, max(0.0, float(depths_m[0])) + MAX_OUTSIDE_M)
        return None

    def _gripper(self, width_m: float) -> Refusal | None:
        gripper = self._limits.gripper
        if gripper.min_m - STILL <= width_m <= gripper.max_m + STILL:
            return None
        reason = (
            f"a setpoint asks for a width of {width_m:g} m, expected {gripper.min_m:g}..{gripper.max_m:g}"
        )
        return Refusal("setpoint_gripper", reason)

    def _beyond(self, what: str, values: Array, limit: Array | float, unit: str) -> Refusal | None:
        over = values - limit
        joint = int(np.argmax(over))
        if over[joint] <= 0.0:
            return None
        most = float(np.broadcast_to(np.asarray(limit), values.shape)[joint])
        reason = f"joint {joint + 1} would be {values[joint]:.4g} {unit} beyond its {what} limits"
        if what != "position":
            reason = f"joint {joint + 1} would have {values[joint]:.4g} {unit} of {what}, at most {most:.4g}"
        return Refusal(f"setpoint_{what}", reason)
