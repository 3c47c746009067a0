"""What the simulated controllers do with their commands: which ones they refuse, and where the arm should be when.

Pure. `TrajectoryFollower` behaves as ros2_controllers' `joint_trajectory_controller`: a new trajectory replaces the one
before at once, begins at the measured position (or, with `from_desired`, at the commanded one: its parameter
`interpolate_from_desired_state`), and is interpolated linearly where its points have positions only, with cubic
polynomials where they have velocities. At its end the arm holds. `PositionFollower` behaves as `position_controllers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """Be at `q_rad` (dof,), with `velocity_rad_s` (dof,) where given, `after_s` the trajectory began."""

    q_rad: Array
    velocity_rad_s: Array | None
    after_s: float


class Follower(Protocol):
    """A controller of the arm."""

    def hold(self, q_rad: Array) -> None:
        """Begin at `q_rad` (dof,), and stay there until the next command."""

    def desired(self, now_s: float) -> Array:
        """Where the arm should be, `(dof,)`."""


class TrajectoryFollower:
    """Follows the newest trajectory."""

    def __init__(self, joints: Sequence[str], from_desired: bool = False) -> None:
        self._joints = tuple(joints)
        self._from_desired = from_desired
        self._begun_s = 0.0
        self._points: list[Point] = []
        self.hold(np.zeros(len(self._joints)))

    def hold(self, q_rad: Array) -> None:
        self._points = [Point(np.array(q_rad), np.zeros(len(self._joints)), 0.0)]

    def refusal(self, joints: Sequence[str], points: Sequence[Point]) -> str:
        """Why a trajectory cannot be followed; empty when it can."""
        if sorted(joints) != sorted(self._joints):
            return f"joints: expected {', '.join(self._joints)}, got {', '.join(joints)}"
        if not points:
            return "it has no points"
        last_s = 0.0
        for number, point in enumerate(points):
            parts = [point.q_rad] if point.velocity_rad_s is None else [point.q_rad, point.velocity_rad_s]
            if any(len(part) != len(joints) or not np.isfinite(part).all() for part in parts):
                return f"point {number}: expected {len(joints)} finite numbers per part"
            if point.after_s <= last_s:
                return f"point {number}: time_from_start {point.after_s:g} s is not after {last_s:g} s"
            last_s = point.after_s
        velocity = points[-1].velocity_rad_s
        if velocity is not None and np.abs(velocity).max() > 0:
            return "the velocity at the end is not zero"
        return ""

    def follow(self, now_s: float, joints: Sequence[str], points: Sequence[Point], measured: Point) -> None:
        """Replace what is followed. `measured`: position and velocity of the arm now."""
        order = [list(joints).index(name) for name in self._joints]
        begin = self._sample(now_s) if self._from_desired else measured
        ordered = [
            Point(
                point.q_rad[order],
                None if point.velocity_rad_s is None else point.velocity_rad_s[order],
                point.after_s,
            )
            for point in points
        ]
        self._begun_s, self._points = now_s, [Point(begin.q_rad, begin.velocity_rad_s, 0.0), *ordered]

    def delay(self, by_s: float) -> None:
        """Go on `by_s` later from where it is: time has passed in which nothing was simulated."""
        self._begun_s += by_s

    def desired(self, now_s: float) -> Array:
        return self._sample(now_s).q_rad

    def _sample(self, now_s: float) -> Point:
        at_s = max(0.0, now_s - self._begun_s)  # an update that is late still asks for the time before
        if at_s >= self._points[-1].after_s:
            return Point(self._points[-1].q_rad, np.zeros(len(self._joints)), 0.0)
        index = next(i for i, point in enumerate(self._points) if point.after_s > at_s)
        before, after = self._points[index - 1], self._points[index]
        long_s = after.after_s - before.after_s
        share = (at_s - before.after_s) / long_s
        step = after.q_rad - before.q_rad
        if after.velocity_rad_s is None or before.velocity_rad_s is None:
            return Point(before.q_rad + share * step, step / long_s, 0.0)
        # Cubic Hermite polynomial through both positions and velocities.
        v0, v1 = before.velocity_rad_s * long_s, after.velocity_rad_s * long_s
        a, b = 3 * step - 2 * v0 - v1, -2 * step + v0 + v1
        q_rad = before.q_rad + share * (v0 + share * (a + share * b))
        return Point(q_rad, (v0 + share * (2 * a + share * 3 * b)) / long_s, 0.0)


class PositionFollower:
    """Goes to the newest positions at once."""

    def __init__(self, joints: Sequence[str]) -> None:
        self._count = len(joints)
        self._q_rad: Array = np.zeros(self._count)

    def hold(self, q_rad: Array) -> None:
        self._q_rad = np.array(q_rad)

    def refusal(self, positions: Sequence[float]) -> str:
        """Why positions cannot be gone to; empty when they can."""
        if len(positions) != self._count or not np.isfinite(positions).all():
            return f"expected {self._count} finite positions, got {len(positions)}"
        return ""

    def follow(self, positions: Sequence[float]) -> None:
        self._q_rad = np.array(positions, dtype=np.float64)

    def desired(self, now_s: float) -> Array:
        return self._q_rad
