"""Where the tool of an arm is, and which joint positions bring it somewhere: for models that speak of the tool.

Damped least squares along a path, from where the arm was seen. The robot keeps its own limits whatever comes from here;
a path that the arm cannot follow is refused, so that it holds instead of taking the nearest it can.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.robot import ChainSpec

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
        tool = self._frames(q_rad)[-1]
        return tool[:3, 3], tool[:3, :3]

    def along(self, start_rad: Array, positions_m: Array, rotations: Array) -> Array:
        """Joint positions `(n, joints)` rad that bring the tool to `(n, 3)` m and `(n, 3, 3)`, one after another.

        Raises `UnreachableError` naming the first row that the arm does not reach.
        """
        q = np.array(start_rad, np.float64)
        path = np.empty((len(positions_m), self.joints))
        for row, (position, rotation) in enumerate(zip(positions_m, rotations, strict=True)):
            q, off_m, off_rad = self._towards(q, position, rotation)
            if off_m > NEAR_M or off_rad > NEAR_RAD:
                at = ", ".join(f"{value:.3f}" for value in position)
                raise UnreachableError(
                    f"row {row}: the tool cannot be at ({at}) m as answered: the nearest is {off_m * 1000:.0f} mm and"
                    f" {off_rad:.2f} rad off"
                )
            path[row] = q
        return path

    def _towards(self, q: Array, position: Array, rotation: Array) -> tuple[Array, float, float]:
        for _ in range(ITERATIONS):
            frames = self._frames(q)
            tool = frames[-1]
            shift = position - tool[:3, 3]
            turn = _turn(rotation @ tool[:3, :3].T)
            off_m, off_rad = float(np.linalg.norm(shift)), float(np.linalg.norm(turn))
            if off_m < NEAR_M / 10 and off_rad < NEAR_RAD / 10:
                break
            jacobian = _jacobian(frames)
            square = jacobian @ jacobian.T + DAMPING**2 * np.eye(6) * min(1.0, off_m + off_rad)
            step = jacobian.T @ np.linalg.solve(square + 1e-9 * np.eye(6), np.concatenate([shift, turn]))
            step *= min(1.0, MAX_TURN_RAD / max(float(np.abs(step).max()), 1e-12))
            q = np.clip(q + step, self.min_rad, self.max_rad)
        return q, off_m, off_rad

    def _frames(self, q: Array) -> list[Array]:
        """Poses `(4, 4)` of the joints' frames and of the tool."""
        chain = self.chain
        pose, frames = np.eye(4), []
        for a, d, alpha, angle in zip(chain.a_m, chain.d_m, chain.alpha_rad, [*q, 0.0], strict=True):
            pose = pose @ _link(float(angle), a, d, alpha)
            frames.append(pose)
        return [*frames[:-1], pose @ _link(chain.tool_turn_rad, 0.0, chain.tool_offset_m, 0.0)]


def _link(angle: float, a: float, d: float, alpha: float) -> Array:
    c, s, ca, sa = np.cos(angle), np.sin(angle), np.cos(alpha), np.sin(alpha)
    return np.array(
        [[c, -s, 0, a], [s * ca, c * ca, -sa, -d * sa], [s * sa, c * sa, ca, d * ca], [0, 0, 0, 1]]
    )


def _jacobian(frames: list[Array]) -> Array:
    """`(6, joints)` of the tool: linear rows, then angular."""
    tool = frames[-1][:3, 3]
    axes = [(frame[:3, 2], frame[:3, 3]) for frame in frames[:-1]]
    return np.stack([np.concatenate([np.cross(axis, tool - at), axis]) for axis, at in axes], axis=-1)


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
    return vector / sine * np.arctan2(sine, cosine)
