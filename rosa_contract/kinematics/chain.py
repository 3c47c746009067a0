"""Where an arm is, from the chain in its robot file, in numpy, for one or many joint positions at once.

The robot needs this without a server: to keep its workspace, and to show an operator the path of a chunk. The inverse
is in `arm.py`, that of the shipped models in `rosa_server/models/panda/kinematics.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_contract.config.body.chain import ChainSpec
from rosa_contract.rotations import matrix

Array = NDArray[np.float64]
Place = tuple[float, float, float]  # in the base frame, m


class Chain:
    """Forward kinematics of one arm. `names` are the points that `points` returns: the robot file's, flange, tool."""

    def __init__(self, spec: ChainSpec) -> None:
        self.dof = spec.dof
        self.names = (*spec.points, "flange", "tool")
        self._frames = [joint - 1 for joint in spec.points.values()]
        self._fixed = fixed(spec)
        flange = self._fixed[-1]
        turn = spec.tool_turn_rad
        tool = np.eye(4)
        tool[:2, :2] = [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
        tool[2, 3] = spec.tool_offset_m
        self._flange = flange
        self._tool = flange @ tool
        hand = self._tool.copy()
        hand[:, 3] = flange[:, 3]
        self._hand = hand
        self._links = [tuple(link[:3].ravel().tolist()) for link in self._fixed[:-1]]
        self._ends = [tuple(end[:3, 3].tolist()) for end in (self._flange, self._tool)]

    def frames(self, q_rad: ArrayLike) -> Array:
        """The frames of the joints and of the tool in the base frame, `(..., dof + 1, 4, 4)` m."""
        joints = self._joints(q_rad)
        joints[..., -1, :, :] = joints[..., -2, :, :] @ self._tool
        return joints

    def points(self, q_rad: ArrayLike) -> Array:
        """Places of `names` in the base frame, `(..., n, 3)` m, at joint positions `(..., dof)` rad."""
        frames = self._joints(q_rad)
        last = frames[..., -2, :, :]
        ends = [(last @ end[:, 3])[..., :3] for end in (self._flange, self._tool)]
        return np.stack([*(frames[..., i, :3, 3] for i in self._frames), *ends], axis=-2)

    def places(self, q_rad: Sequence[float]) -> list[Place]:
        """As `points` at one joint position, in plain numbers: three times faster, for what runs in every period."""
        # The axes x, y, z and the origin p of the joint's frame, in the base frame.
        x0, x1, x2, y0, y1, y2, z0, z1, z2 = 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0
        p0 = p1 = p2 = 0.0
        origins: list[Place] = []
        for link, angle in zip(self._links, q_rad, strict=True):
            a0, b0, c0, d0, a1, b1, c1, d1, a2, b2, c2, d2 = link
            c, s = math.cos(angle), math.sin(angle)
            p0, p1, p2 = (
                p0 + d0 * x0 + d1 * y0 + d2 * z0,
                p1 + d0 * x1 + d1 * y1 + d2 * z1,
                p2 + d0 * x2 + d1 * y2 + d2 * z2,
            )
            u0, u1, u2 = (
                a0 * x0 + a1 * y0 + a2 * z0,
                a0 * x1 + a1 * y1 + a2 * z1,
                a0 * x2 + a1 * y2 + a2 * z2,
            )
            v0, v1, v2 = (
                b0 * x0 + b1 * y0 + b2 * z0,
                b0 * x1 + b1 * y1 + b2 * z1,
                b0 * x2 + b1 * y2 + b2 * z2,
            )
            z0, z1, z2 = (
                c0 * x0 + c1 * y0 + c2 * z0,
                c0 * x1 + c1 * y1 + c2 * z1,
                c0 * x2 + c1 * y2 + c2 * z2,
            )
            x0, x1, x2 = c * u0 + s * v0, c * u1 + s * v1, c * u2 + s * v2
            y0, y1, y2 = c * v0 - s * u0, c * v1 - s * u1, c * v2 - s * u2
            origins.append((p0, p1, p2))
        found = [origins[frame] for frame in self._frames]
        for i, j, k in self._ends:
            found.append(
                (
                    p0 + i * x0 + j * y0 + k * z0,
                    p1 + i * x1 + j * y1 + k * z1,
                    p2 + i * x2 + j * y2 + k * z2,
                )
            )
        return found

    def tool(self, q_rad: ArrayLike) -> Array:
        """The point between the fingertips in the base frame, `(..., 3)` m, at joint positions `(..., dof)` rad."""
        return np.asarray((self._joints(q_rad)[..., -2, :, :] @ self._tool[:, 3])[..., :3])

    def hand(self, q_rad: ArrayLike) -> Array:
        """The hand's frame in the base frame, `(..., 4, 4)` m: at the flange, turned as the hand is mounted."""
        return np.asarray(self._joints(q_rad)[..., -2, :, :] @ self._hand)

    def flange(self, q_rad: ArrayLike) -> Array:
        """The flange's frame in the base frame, `(..., 4, 4)` m."""
        return np.asarray(self._joints(q_rad)[..., -2, :, :] @ self._flange)

    def _joints(self, q_rad: ArrayLike) -> Array:
        """The frames of the joints in the base frame, `(..., dof + 1, 4, 4)`; the last one is not filled."""
        q = np.asarray(q_rad, dtype=np.float64)
        if q.ndim == 0 or q.shape[-1] != self.dof:
            raise ValueError(
                f"kinematics: expected {self.dof} joint positions in the last axis, got shape {q.shape}"
            )
        cos, sin = np.cos(q)[..., None], np.sin(q)[..., None]
        poses = np.empty((*q.shape[:-1], self.dof + 1, 4, 4))
        links = poses[..., :-1, :, :]
        links[:] = self._fixed[:-1]
        x, y = self._fixed[:-1, :, 0], self._fixed[:-1, :, 1]
        links[..., 0], links[..., 1] = cos * x + sin * y, cos * y - sin * x
        for joint in range(1, self.dof):
            links[..., joint, :, :] = links[..., joint - 1, :, :] @ links[..., joint, :, :]
        return poses


def fixed(spec: ChainSpec) -> Array:
    """Each joint's frame in the one before while its angle is 0, then the flange's, `(dof + 1, 4, 4)` m.

    The first one is in the robot's base frame.
    """
    made = np.zeros((spec.dof + 1, 4, 4))
    if spec.frames:
        made[:] = [_placed(frame) for frame in spec.frames]
    else:
        cos, sin, d_m = np.cos(spec.alpha_rad), np.sin(spec.alpha_rad), np.asarray(spec.d_m)
        made[:, 0, 0], made[:, 0, 3] = 1.0, spec.a_m
        made[:, 1, 1], made[:, 1, 2], made[:, 1, 3] = cos, -sin, -d_m * sin
        made[:, 2, 1], made[:, 2, 2], made[:, 2, 3] = sin, cos, d_m * cos
        made[:, 3, 3] = 1.0
    if spec.mounted:
        made[0] = _placed(spec.mounted) @ made[0]
    return made


def _placed(frame: Sequence[float]) -> Array:
    """`(4, 4)` from x, y, z, roll, pitch, yaw."""
    made = np.eye(4)
    made[:3, 3], made[:3, :3] = frame[:3], matrix("rpy", np.array(frame[3:]))
    return made


def jacobian(frames: Array) -> Array:
    """Geometric Jacobian of the tool `(..., 6, dof)`, linear rows first, then angular, at what `Chain.frames` gave."""
    axis = frames[..., :-1, :3, 2]
    reach = frames[..., -1:, :3, 3] - frames[..., :-1, :3, 3]
    jac = np.empty((*axis.shape[:-2], 6, axis.shape[-2]))
    # `np.cross` written out: it is six times slower on so few numbers.
    for at, (one, other) in enumerate(((1, 2), (2, 0), (0, 1))):
        jac[..., at, :] = axis[..., one] * reach[..., other] - axis[..., other] * reach[..., one]
    jac[..., 3:, :] = np.swapaxes(axis, -1, -2)
    return jac
