"""The Panda's kinematics in numpy, vectorised over a batch: forward, Jacobian, damped-least-squares inverse.

Denavit-Hartenberg parameters (modified, Craig) from Franka's documentation; `hardware/panda/panda.yaml` has the same
numbers, and a test compares them and MuJoCo's model with this file.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

DH_A_M = np.array([0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088, 0.0])
DH_D_M = np.array([0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.0, 0.107])
DH_ALPHA_RAD = np.array([0.0, -np.pi / 2, np.pi / 2, np.pi / 2, -np.pi / 2, np.pi / 2, np.pi / 2, 0.0])
TOOL_TURN_RAD, TOOL_OFFSET_M = -np.pi / 4, 0.1034
LOWER_RAD = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
UPPER_RAD = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
NEUTRAL_RAD = np.array(
    [0.0, -0.2053, 0.0, -2.3561, 0.0, 2.1508, 0.7854]
)  # the elbow posture the inverse leans to
TOOL_DOWN = np.diag([1.0, -1.0, -1.0])  # tool x forward, z down, fingers travel along y


def forward(q_rad: ArrayLike) -> tuple[Array, Array]:
    """Tool position `(..., 3)` m and rotation `(..., 3, 3)` of joint positions `(..., 7)` rad."""
    pose = _frames(np.asarray(q_rad, dtype=np.float64))[-1]
    return pose[..., :3, 3], pose[..., :3, :3]


def jacobian(q_rad: ArrayLike) -> Array:
    """Geometric Jacobian of the tool `(..., 6, 7)`: linear rows first, then angular."""
    return _jacobian(_frames(np.asarray(q_rad, dtype=np.float64)))


def inverse(
    position_m: ArrayLike, start_rad: ArrayLike, iterations: int = 12, damping: float = 0.03
) -> Array:
    """Joint positions `(..., 7)` near `start_rad` that put the tool at `position_m` `(..., 3)`, pointing down.

    Damped least squares with a null-space pull to the neutral elbow; stays within the joint limits. A position out of
    reach gives the nearest the iterations found, never a NaN.
    """
    target = np.asarray(position_m, dtype=np.float64)
    q = np.broadcast_to(np.asarray(start_rad, dtype=np.float64), (*target.shape[:-1], 7)).copy()
    eye6, eye7 = damping**2 * np.eye(6), np.eye(7)
    for _ in range(iterations):
        frames = _frames(q)
        pose = frames[-1]
        rotation = TOOL_DOWN @ np.swapaxes(pose[..., :3, :3], -1, -2)
        turn = 0.5 * np.stack(
            [
                rotation[..., 2, 1] - rotation[..., 1, 2],
                rotation[..., 0, 2] - rotation[..., 2, 0],
                rotation[..., 1, 0] - rotation[..., 0, 1],
            ],
            axis=-1,
        )
        error = np.concatenate([target - pose[..., :3, 3], turn], axis=-1)
        jac = _jacobian(frames)
        jac_t = np.swapaxes(jac, -1, -2)
        pseudo = jac_t @ np.linalg.inv(jac @ jac_t + eye6)
        lean = 0.1 * (NEUTRAL_RAD - q)
        step = pseudo @ error[..., None] + (eye7 - pseudo @ jac) @ lean[..., None]
        q = np.clip(q + np.clip(step[..., 0], -0.3, 0.3), LOWER_RAD, UPPER_RAD)
    return q


def inverse_path(path_m: ArrayLike, start_rad: ArrayLike) -> Array:
    """Joint positions `(n, steps, 7)` along tool paths `(n, steps, 3)`, each step starting from the one before."""
    path = np.asarray(path_m, dtype=np.float64)
    q = np.asarray(start_rad, dtype=np.float64)
    joints = np.empty((*path.shape[:-1], 7))
    for step in range(path.shape[1]):
        q = inverse(path[:, step], q, iterations=12 if step == 0 else 4)
        joints[:, step] = q
    return joints


def _frames(q: Array) -> list[Array]:
    """Poses `(..., 4, 4)` of the seven joint frames and of the tool, in the base frame."""
    if q.shape[-1] != 7:
        raise ValueError(f"kinematics: expected 7 joint positions in the last axis, got shape {q.shape}")
    angles = np.concatenate([q, np.zeros((*q.shape[:-1], 1))], axis=-1)
    frames = []
    pose = np.broadcast_to(np.eye(4), (*q.shape[:-1], 4, 4))
    for i in range(8):
        pose = pose @ _link(angles[..., i], DH_A_M[i], DH_D_M[i], DH_ALPHA_RAD[i])
        frames.append(pose)
    tool = _link(np.asarray(TOOL_TURN_RAD), 0.0, TOOL_OFFSET_M, 0.0)
    return [*frames[:7], pose @ tool]


def _link(theta: Array, a: float, d: float, alpha: float) -> Array:
    c, s, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    pose = np.zeros((*theta.shape, 4, 4))
    pose[..., 0, 0], pose[..., 0, 1], pose[..., 0, 3] = c, -s, a
    pose[..., 1, 0], pose[..., 1, 1], pose[..., 1, 2], pose[..., 1, 3] = s * ca, c * ca, -sa, -d * sa
    pose[..., 2, 0], pose[..., 2, 1], pose[..., 2, 2], pose[..., 2, 3] = s * sa, c * sa, ca, d * ca
    pose[..., 3, 3] = 1.0
    return pose


def _jacobian(frames: list[Array]) -> Array:
    tool = frames[-1][..., :3, 3]
    columns = []
    for frame in frames[:7]:
        axis = frame[..., :3, 2]
        columns.append(np.concatenate([np.cross(axis, tool - frame[..., :3, 3]), axis], axis=-1))
    return np.stack(columns, axis=-1)
