"""Where the Panda's tool is, and which joint positions bring it somewhere pointing down, for many arms at once.

Its numbers are those of `configs/robots/panda.yaml`; a test compares them with MuJoCo's model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_contract.config.robot import load_robot
from rosa_contract.kinematics.chain import Chain, jacobian
from rosa_contract.shipped import shipped

Array = NDArray[np.float64]

PANDA = load_robot(shipped("configs", "robots", "panda.yaml"))
assert PANDA.chain is not None
CHAIN = Chain(PANDA.chain)
LOWER_RAD, UPPER_RAD = np.array(PANDA.limits.position_min_rad), np.array(PANDA.limits.position_max_rad)
NEUTRAL_RAD = np.array(PANDA.home_rad)  # the elbow posture the inverse leans to
# Entries of a rotation that say about which axis it turns.
_LOWER, _LEFT = np.array([2, 0, 1]), np.array([1, 2, 0])
TOOL_DOWN = np.diag([1.0, -1.0, -1.0])  # tool x forward, z down, fingers travel along y


def forward(q_rad: ArrayLike) -> tuple[Array, Array]:
    """Tool position `(..., 3)` m and rotation `(..., 3, 3)` of joint positions `(..., 7)` rad."""
    pose = CHAIN.frames(q_rad)[..., -1, :, :]
    return pose[..., :3, 3], pose[..., :3, :3]


def inverse(
    position_m: ArrayLike, start_rad: ArrayLike, iterations: int = 12, damping: float = 0.03
) -> Array:
    """Joint positions `(..., 7)` near `start_rad` that put the tool at `position_m` `(..., 3)`, pointing down.

    Damped least squares with a null-space pull to the neutral elbow; stays within the joint limits. A position out of
    reach gives the nearest the iterations found, never a NaN.
    """
    target = np.asarray(position_m, dtype=np.float64)
    q = np.broadcast_to(np.asarray(start_rad, dtype=np.float64), (*target.shape[:-1], 7)).copy()
    damped, error = damping**2 * np.eye(6), np.empty((*target.shape[:-1], 6))
    for _ in range(iterations):
        frames = CHAIN.frames(q)
        pose = frames[..., -1, :, :]
        rotation = TOOL_DOWN @ np.swapaxes(pose[..., :3, :3], -1, -2)
        error[..., :3] = target - pose[..., :3, 3]
        error[..., 3:] = 0.5 * (rotation[..., _LOWER, _LEFT] - rotation[..., _LEFT, _LOWER])
        jac = jacobian(frames)
        jac_t = np.swapaxes(jac, -1, -2)
        lean = 0.1 * (NEUTRAL_RAD - q)
        # The pseudo-inverse is applied, never written down: pseudo @ error + (1 - pseudo @ jac) @ lean.
        wanted = error[..., None] - jac @ lean[..., None]
        step = (jac_t @ np.linalg.solve(jac @ jac_t + damped, wanted))[..., 0] + lean
        q = np.clip(q + np.clip(step, -0.3, 0.3), LOWER_RAD, UPPER_RAD)
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
