"""Where the arm is: forward kinematics of the robot file's chain, in numpy, for one or many joint positions at once.

The robot needs this without a server: to keep its workspace, and to show an operator the path of a chunk. The models'
own kinematics (`rosa_server/models/kinematics.py`) is the Panda's and can also invert; a test compares the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_contract.robot import ChainSpec

Array = NDArray[np.float64]


class Chain:
    """Forward kinematics of one arm. `names` are the points that `points` returns: the robot file's, flange, tool."""

    def __init__(self, spec: ChainSpec) -> None:
        self.dof = len(spec.a_m) - 1
        self.names = (*spec.points, "flange", "tool")
        self._frames = [joint - 1 for joint in spec.points.values()]
        # Per row the parts of its transform that do not depend on the joint's angle.
        cos, sin = np.cos(spec.alpha_rad), np.sin(spec.alpha_rad)
        d_m = np.asarray(spec.d_m)
        self._fixed = np.zeros((self.dof + 1, 4, 4))
        self._fixed[:, 0, 3] = spec.a_m
        self._fixed[:, 1, 2], self._fixed[:, 1, 3] = -sin, -d_m * sin
        self._fixed[:, 2, 2], self._fixed[:, 2, 3] = cos, d_m * cos
        self._fixed[:, 3, 3] = 1.0
        self._cos_alpha, self._sin_alpha = cos[:-1], sin[:-1]
        flange = self._fixed[-1].copy()  # its angle is 0
        flange[0, 0], flange[1, 1], flange[2, 1] = 1.0, cos[-1], sin[-1]
        turn = spec.tool_turn_rad
        tool = np.eye(4)
        tool[:2, :2] = [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
        tool[2, 3] = spec.tool_offset_m
        self._flange = flange
        self._tool = flange @ tool
        hand = self._tool.copy()
        hand[:, 3] = flange[:, 3]
        self._hand = hand

    def points(self, q_rad: ArrayLike) -> Array:
        """Places of `names` in the base frame, `(..., n, 3)` m, at joint positions `(..., dof)` rad."""
        frames = self._poses(q_rad)
        last = frames[-1]
        ends = [(last @ end[:, 3])[..., :3] for end in (self._flange, self._tool)]
        return np.stack([*(frames[i][..., :3, 3] for i in self._frames), *ends], axis=-2)

    def tool(self, q_rad: ArrayLike) -> Array:
        """The point between the fingertips in the base frame, `(..., 3)` m, at joint positions `(..., dof)` rad."""
        return np.asarray((self._poses(q_rad)[-1] @ self._tool[:, 3])[..., :3])

    def hand(self, q_rad: ArrayLike) -> Array:
        """The hand's frame in the base frame, `(..., 4, 4)` m: at the flange, turned as the hand is mounted."""
        return np.asarray(self._poses(q_rad)[-1] @ self._hand)

    def flange(self, q_rad: ArrayLike) -> Array:
        """The flange's frame in the base frame, `(..., 4, 4)` m."""
        return np.asarray(self._poses(q_rad)[-1] @ self._flange)

    def _poses(self, q_rad: ArrayLike) -> list[Array]:
        """The frames of the joints in the base frame, one `(..., 4, 4)` each."""
        q = np.asarray(q_rad, dtype=np.float64)
        if q.ndim == 0 or q.shape[-1] != self.dof:
            raise ValueError(
                f"kinematics: expected {self.dof} joint positions in the last axis, got shape {q.shape}"
            )
        cos, sin = np.cos(q), np.sin(q)
        links = np.empty((*q.shape, 4, 4))
        links[:] = self._fixed[:-1]
        links[..., 0, 0], links[..., 0, 1] = cos, -sin
        links[..., 1, 0], links[..., 1, 1] = sin * self._cos_alpha, cos * self._cos_alpha
        links[..., 2, 0], links[..., 2, 1] = sin * self._sin_alpha, cos * self._sin_alpha
        poses = [links[..., 0, :, :]]
        for joint in range(1, self.dof):
            poses.append(poses[-1] @ links[..., joint, :, :])
        return poses
