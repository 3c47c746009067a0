"""Where the tool of an arm is, and which joint positions bring it somewhere: for models that speak of the tool.

Damped least squares along a path, from where the arm was seen. The robot keeps its own limits whatever comes from here;
a path that the arm cannot follow is refused, so that it holds instead of taking the nearest it can.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.body.chain import ChainSpec
from rosa_contract.kinematics.chain import Chain, jacobian

Array = NDArray[np.float64]
ITERATIONS = 40
DAMPING = 0.02
MAX_TURN_RAD = 0.2  # of a joint, in one iteration
NEAR_M, NEAR_RAD = 1e-3, 1e-2


class UnreachableError(RuntimeError):
    """The arm cannot follow what the model answered."""


@dataclass(frozen=True)
class Arm:
    """A chain with the limits of its joints, rad."""

    chain: ChainSpec
    min_rad: tuple[float, ...]
    max_rad: tuple[float, ...]

    @property
    def joints(self) -> int:
        return len(self.min_rad)

    def pose(self, q_rad: Array) -> tuple[Array, Array]:
        """Position `(3,)` m and rotation `(3, 3)` of the tool in the base frame."""
        tool = self._chain.frames(q_rad)[-1]
        return tool[:3, 3], tool[:3, :3]

    def along(
        self, start_rad: Array, positions_m: Array, rotations: Array, max_rounds: int | None = None
    ) -> Array:
        """Joint positions `(n, joints)` rad that bring the tool to `(n, 3)` m and `(n, 3, 3)`, one after another.

        `max_rounds`: of the whole path, where it must not compute for long. Raises `UnreachableError` naming the first
        row that the arm does not reach.
        """
        q = np.array(start_rad, np.float64)
        path = np.empty((len(positions_m), self.joints))
        left = max_rounds if max_rounds is not None else ITERATIONS * len(positions_m)
        for row, (position, rotation) in enumerate(zip(positions_m, rotations, strict=True)):
            q, off_m, off_rad, rounds = self._towards(q, position, rotation, min(left, ITERATIONS))
            left -= rounds
            if not (off_m <= NEAR_M and off_rad <= NEAR_RAD):  # also where NaN
                at = ", ".join(f"{value:.3f}" for value in position)
                raise UnreachableError(
                    f"row {row}: the tool cannot be at ({at}) m as answered: the nearest is {off_m * 1000:.0f} mm and"
                    f" {off_rad:.2f} rad off"
                )
            path[row] = q
        return path

    def closeness(self, q_rad: Array) -> float:
        """How far the arm is from a singular pose: the smallest singular value of the tool's Jacobian."""
        values = np.linalg.svd(jacobian(self._chain.frames(q_rad)), compute_uv=False)
        return float(values[-1])

    def _towards(
        self, q: Array, position: Array, rotation: Array, max_rounds: int
    ) -> tuple[Array, float, float, int]:
        """Joint positions, what is missing in m and rad, and the rounds that it took."""
        rounds = 0
        while True:
            frames = self._chain.frames(q)
            tool = frames[-1]
            shift = position - tool[:3, 3]
            turn = _turn(rotation @ tool[:3, :3].T)
            off_m, off_rad = float(np.linalg.norm(shift)), float(np.linalg.norm(turn))
            if rounds >= max_rounds or (off_m < NEAR_M / 10 and off_rad < NEAR_RAD / 10):
                return q, off_m, off_rad, rounds
            rounds += 1
            jac = jacobian(frames)
            square = jac @ jac.T + DAMPING**2 * np.eye(6) * min(1.0, off_m + off_rad)
            step = jac.T @ np.linalg.solve(square + 1e-9 * np.eye(6), np.concatenate([shift, turn]))
            step *= min(1.0, MAX_TURN_RAD / max(float(np.abs(step).max()), 1e-12))
            q = np.clip(q + step, self.min_rad, self.max_rad)

    @cached_property
    def _chain(self) -> Chain:
        return Chain(self.chain)


def _turn(rotation: Array) -> Array:
    """Rotation vector, rad; exact for all but half turns, where it is large."""
    vector = 0.5 * np.array(
        [
            rotation[2, 1] - rotation[1, 2],
            rotation[0, 2] - rotation[2, 0],
            rotation[1, 0] - rotation[0, 1],
        ]
    )
    sine, cosine = float(np.linalg.norm(vector)), float((np.trace(rotation) - 1) / 2)
    if sine < 1e-9:
        return vector if cosine > 0 else np.array([np.pi, 0.0, 0.0])
    return np.asarray(vector / sine * np.arctan2(sine, cosine))
