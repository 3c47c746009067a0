"""The last check before a driver sends: each command against every limit, whatever led to it.

It shares nothing with what makes setpoints (`setpoint_filter.py`) but the robot's limits: it looks only at what was
sent before and at what is to be sent now.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rosa_client.motion.arm_orders import Command, Setpoint
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.refusal import Refusal

Array = NDArray[np.float64]

ROUNDING = 1.001  # on velocity, acceleration and jerk: what differences of floating-point numbers lose
STILL = 1e-6  # rad per period: what a filter at rest may still creep
MAX_OUTSIDE_M = 0.005  # a setpoint on its way may be this far outside the workspace


PARTS = {  # what a setpoint is compared with, one row of values (dof,) each
    "position": "rad",
    "position of rest": "rad",
    "velocity": "rad/s",
    "acceleration": "rad/s^2",
    "jerk": "rad/s^3",
}


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
        motion = [
            np.array(limit) * ROUNDING + STILL * rate_hz**order
            for order, limit in enumerate(
                (joints.velocity_rad_s, joints.acceleration_rad_s2, joints.jerk_rad_s3), start=1
            )
        ]
        # All limits in the order of `PARTS`: one comparison of all costs a fraction of five (a period is 10 ms).
        self._max = np.concatenate([self._joints_high, self._joints_high, *motion])
        self._min = np.concatenate([self._joints_low, self._joints_low, *(-limit for limit in motion)])
        self._refusal: Refusal | None = None
        self.begin(np.zeros(joints.dof))

    def begin(self, q_rad: Array) -> None:
        """The arm stands still at `q_rad` (dof,), and was commanded nowhere else."""
        self._sent = self._rest = np.array(q_rad)
        # An arm that begins outside a limit may come in, but never goes farther out.
        self._began_outside = bool(((q_rad < self._joints_low) | (q_rad > self._joints_high)).any())
        self._between(np.minimum(self._joints_low, q_rad), np.maximum(self._joints_high, q_rad))
        self._sent_velocity: Array = np.zeros(len(q_rad))
        self._sent_acceleration: Array = np.zeros(len(q_rad))
        self._allowed_m = max(MAX_OUTSIDE_M, self._limits.depth_m(q_rad) + MAX_OUTSIDE_M)
        self._refusal = None

    def _between(self, low: Array, high: Array) -> None:
        """From now on positions have to be between these (dof,)."""
        self._low, self._high = low, high
        both = slice(0, 2 * len(low))
        self._min[both], self._max[both] = np.tile(low - STILL, 2), np.tile(high + STILL, 2)

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
        if self._refusal is not None:
            return self._refusal
        q, rest = setpoint.q_rad, setpoint.rest_rad
        if q.shape != self._low.shape or rest.shape != q.shape:
            reason = f"a setpoint has shape {q.shape}, expected {self._low.shape}"
            return self._refuse(Refusal("setpoint_not_finite", reason))
        velocity, acceleration, jerk = self._motion(setpoint)
        refusal = (
            self._beyond(np.concatenate((q, rest, velocity, acceleration, jerk)))
            or self._led(setpoint)
            or self._place(q, rest)
            or self._gripper(setpoint.gripper_m)
        )
        if refusal is not None:
            return self._refuse(refusal)
        if setpoint.within_s:  # it ends at rest
            velocity = acceleration = np.zeros_like(q)
        self._sent_velocity, self._sent_acceleration = velocity, acceleration
        self._sent, self._rest = q, rest
        if self._began_outside:
            self._between(
                np.minimum(self._joints_low, np.maximum(self._low, q)),
                np.maximum(self._joints_high, np.minimum(self._high, q)),
            )
        within_s = setpoint.within_s or self._period_s
        return Command(q, velocity, rest, setpoint.rest_s, setpoint.gripper_m, within_s)

    def _refuse(self, refusal: Refusal) -> Refusal:
        self._refusal = refusal
        return refusal

    def _motion(self, setpoint: Setpoint) -> tuple[Array, Array, Array]:
        """Velocity, acceleration and jerk, `(dof,)` each, of the way from what was sent last."""
        way = setpoint.q_rad - self._sent
        if setpoint.within_s:  # from rest to rest by a cubic polynomial
            long_s = setpoint.within_s
            return 1.5 * way / long_s, 6.0 * way / long_s**2, np.zeros_like(way)
        velocity = way / self._period_s
        acceleration = (velocity - self._sent_velocity) / self._period_s
        return velocity, acceleration, (acceleration - self._sent_acceleration) / self._period_s

    def _beyond(self, values: Array) -> Refusal | None:
        """`values` (5 dof,): the rows of `PARTS`."""
        good = (values >= self._min) & (values <= self._max)  # not where NaN
        if good.all():
            return None
        rows = values.reshape(len(PARTS), -1)
        if not np.isfinite(rows[:2]).all():
            return Refusal("setpoint_not_finite", f"a setpoint is not finite: {rows[0]}")
        row = int(np.argmin(good.reshape(rows.shape).all(axis=1)))
        lowest, highest = self._min.reshape(rows.shape)[row], self._max.reshape(rows.shape)[row]
        over = np.maximum(lowest - rows[row], rows[row] - highest)
        joint = int(np.argmax(over))
        part, unit = list(PARTS.items())[row]
        if part.startswith("position"):
            reason = f"joint {joint + 1} would be {over[joint] + STILL:.4g} {unit} beyond its position limits"
            return Refusal("setpoint_position", reason)
        value = abs(rows[row, joint])
        reason = f"joint {joint + 1} would have {value:.4g} {unit} of {part}, at most {highest[joint]:.4g}"
        return Refusal(f"setpoint_{part}", reason)

    def _led(self, setpoint: Setpoint) -> Refusal | None:
        """A command with its own time begins at rest."""
        if setpoint.within_s and np.abs(self._sent_velocity).max() > STILL / self._period_s:
            return Refusal("setpoint_velocity", "an arm in motion was to be led elsewhere")
        return None

    def _place(self, q_rad: Array, rest_rad: Array) -> Refusal | None:
        """The setpoint, and where the arm would come to rest."""
        depths_m = [self._limits.depth_m(place) for place in (rest_rad, q_rad)]
        for place, depth_m in zip((rest_rad, q_rad), depths_m, strict=True):
            if depth_m > self._allowed_m:
                reason = f"a setpoint leaves the workspace: {self._limits.place(place)}"
                return Refusal("setpoint_workspace", reason)
        self._allowed_m = min(self._allowed_m, max(0.0, depths_m[1]) + MAX_OUTSIDE_M)
        return None

    def _gripper(self, widths_m: Array) -> Refusal | None:
        lowest, highest = self._limits.closed_m - STILL, self._limits.open_m + STILL
        told = widths_m.shape == lowest.shape
        if told and ((widths_m >= lowest) & (widths_m <= highest)).all():  # not where NaN
            return None
        ranges = ", ".join(f"{one.min_m:g}..{one.max_m:g}" for one in self._limits.grippers) or "no gripper"
        asked = ", ".join(f"{width:g}" for width in widths_m.ravel()) or "none"
        return Refusal("setpoint_gripper", f"a setpoint asks for a width of {asked} m, expected {ranges}")
