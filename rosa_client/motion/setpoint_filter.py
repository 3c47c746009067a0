"""Turns any sequence of joint targets into setpoints that keep the joint limits by construction.

Three stages, each a few lines, run once per control period `dt`:

1. ramp: a point chases the target in a straight joint-space line; no joint faster than its velocity bound `v`;
2. moving average over `n1` periods of the ramp: acceleration is a difference of two ramp velocities over
   `T1 = n1 dt`, so `|a| <= 2 v / T1`;
3. moving average over `n2` periods of stage 2: likewise `|jerk| <= 2 a / T2`.

Averages of velocities are no faster than the fastest, and the output is a convex combination of ramp points, so the
velocity and position limits hold too. Nothing depends on when targets arrive or what they are: a jump, a NaN-free
random walk and a stop in mid-motion are all the same case. The price is a delay of `(T1 + T2) / 2`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_contract.config.robot import JointLimits

Joints = NDArray[np.float64]


WORKING_SPEED = 0.3  # share of the velocity limits that demonstrations, training and evaluation use


class SetpointFilter:
    """Position, velocity, acceleration and jerk limits for any sequence of joint targets.

    `velocity_scaling` (0..1] scales the velocity limit once and for all: the averages' lengths follow from it. `scale`
    slows further, at any time: the ramp gets slower while the averages keep their lengths, so that velocity,
    acceleration and jerk shrink by it alike and a stop takes no longer than at full speed. Call `reset(q)` where the
    arm stands, then `step(target)` once per control period.
    """

    def __init__(self, limits: JointLimits, rate_hz: float, velocity_scaling: float = WORKING_SPEED) -> None:
        if not (math.isfinite(rate_hz) and rate_hz > 0):
            raise ValueError(f"rate_hz must be finite and > 0, got {rate_hz}")
        _check(limits)
        _check_share("velocity_scaling", velocity_scaling)
        self.limits = limits
        self.dt_s = 1.0 / rate_hz
        self._lower = np.asarray(limits.position_min_rad)
        self._upper = np.asarray(limits.position_max_rad)
        velocity = velocity_scaling * np.asarray(limits.velocity_rad_s)
        self._step_full = velocity * self.dt_s
        self._step_max = self._step_full
        self._scale = 1.0
        n1 = _periods(2.0 * velocity / np.asarray(limits.acceleration_rad_s2), self.dt_s)
        acceleration = 2.0 * velocity / (n1 * self.dt_s)
        n2 = _periods(2.0 * acceleration / np.asarray(limits.jerk_rad_s3), self.dt_s)
        self.delay_s = 0.5 * (n1 + n2 - 2) * self.dt_s
        self.stop_s = (n1 + n2) * self.dt_s  # the output stands still at most this long after a hold
        self._ramp = np.zeros((n1, limits.dof))  # the last n1 ramp points, newest at _ramp_at
        self._mean = np.zeros((n2, limits.dof))  # the last n2 averages of them
        self._ramp_at = 0
        self._mean_at = 0
        self._target: Joints = np.zeros(limits.dof)
        self._is_reset = False

    def reset(self, q_rad: ArrayLike) -> None:
        """Stand still at `q_rad` `(dof,)`; only for an arm that really stands still there."""
        q = self._checked(q_rad, "reset")
        self._ramp[:] = q
        self._mean[:] = q
        self._target = q
        self._is_reset = True

    @property
    def scale(self) -> float:
        """Share of the working speed, 0..1; may be set at any time."""
        return self._scale

    @scale.setter
    def scale(self, share: float) -> None:
        _check_share("scale", share)
        self._scale = share
        self._step_max = share * self._step_full

    def ahead(self, target_rad: ArrayLike) -> Joints:
        """Where the next `step(target_rad)` would take the ramp `(dof,)`; every setpoint lies between such points."""
        return self._next(np.clip(self._checked(target_rad, "ahead"), self._lower, self._upper))

    @property
    def goes_to(self) -> Joints:
        """Where the output would come to rest if it were held now `(dof,)`, rad."""
        return np.array(self._ramp[self._ramp_at])

    def step(self, target_rad: ArrayLike) -> Joints:
        """One control period toward `target_rad` `(dof,)`, clipped to the position limits; returns the setpoint."""
        self._target = np.clip(self._checked(target_rad, "step"), self._lower, self._upper)
        return self._advance()

    def hold(self) -> Joints:
        """One control period of a smooth stop: the ramp freezes and the output runs out to it within T1 + T2."""
        self._target = self._ramp[self._ramp_at].copy()
        return self._advance()

    @property
    def setpoint(self) -> Joints:
        """The last output `(dof,)`, rad."""
        return np.asarray(self._mean.mean(axis=0))

    @property
    def settled(self) -> bool:
        """Whether the output stands at the last target (to a microradian)."""
        return bool(
            np.abs(self._ramp - self._target).max() < 1e-6 and np.abs(self._mean - self._target).max() < 1e-6
        )

    def _advance(self) -> Joints:
        if not self._is_reset:
            raise RuntimeError(
                "SetpointFilter: call reset(q) with the measured joint positions before step or hold"
            )
        point = self._next(self._target)
        self._ramp_at = (self._ramp_at + 1) % len(self._ramp)
        self._ramp[self._ramp_at] = point
        self._mean_at = (self._mean_at + 1) % len(self._mean)
        self._mean[self._mean_at] = self._ramp.mean(axis=0)
        return self.setpoint

    def _next(self, target: Joints) -> Joints:
        here = self._ramp[self._ramp_at]
        delta = target - here
        # One factor for all joints keeps the ramp on a straight joint-space line.
        ratio = float(np.max(np.abs(delta) / self._step_max))
        return target if ratio <= 1.0 else here + delta / ratio

    def _checked(self, q_rad: ArrayLike, what: str) -> Joints:
        q = np.array(q_rad, dtype=np.float64)
        if q.shape != (self.limits.dof,) or not np.isfinite(q).all():
            raise ValueError(
                f"SetpointFilter.{what}: expected {self.limits.dof} finite joint positions, got {q!r}"
            )
        return q


def _periods(seconds: Joints, dt_s: float) -> int:
    """Control periods that cover the longest of `seconds`; at least one."""
    return max(1, math.ceil(float(np.max(seconds)) / dt_s - 1e-9))


def _check_share(name: str, value: float) -> None:
    if not 0.0 < value <= 1.0:
        raise ValueError(f"{name} must be in (0, 1], got {value}")


def _check(limits: JointLimits) -> None:
    """The loader has checked the limits of a robot file; these may come from anywhere."""
    sizes = {name: len(getattr(limits, name)) for name in JointLimits.__dataclass_fields__}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"joint limits: expected one value per joint in each list, got lengths {sizes}")
    if any(low >= high for low, high in zip(limits.position_min_rad, limits.position_max_rad, strict=True)):
        lowest, highest = limits.position_min_rad, limits.position_max_rad
        raise ValueError(
            f"joint limits: position_min_rad must be below position_max_rad, got {lowest} and {highest}"
        )
    for name in ("velocity_rad_s", "acceleration_rad_s2", "jerk_rad_s3"):
        values = getattr(limits, name)
        if not all(math.isfinite(value) and value > 0 for value in values):
            raise ValueError(f"joint limits: {name} must be finite and > 0, got {values}")
