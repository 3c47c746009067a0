"""The Panda's kinematics in numpy, vectorised over a batch: forward, Jacobian, damped-least-squares inverse.

Its numbers are those of `configs/robots/panda.yaml`; a test compares them with MuJoCo's model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_contract.config.robot import load_robot
from rosa_contract.shipped import shipped

Array = NDArray[np.float64]

PANDA = load_robot(shipped("configs", "robots", "panda.yaml"))
assert PANDA.chain is not None
CHAIN = PANDA.chain
LOWER_RAD, UPPER_RAD = np.array(PANDA.limits.position_min_rad), np.array(PANDA.limits.position_max_rad)
NEUTRAL_RAD = np.array(PANDA.home_rad)  # the elbow posture the inverse leans to
TOOL_DOWN = np.diag([1.0, -1.0, -1.0])  # tool x forward, z down, fingers travel along y


def forward(q_rad: ArrayLike) -> tuple[Array, Array]:
    """Tool position `(..., 3)` m and rotation `(..., 3, 3)` of joint positions `(..., 7)` rad."""
    pose = _frames(np.asarray(q_rad, dtype=np.float64))[..., 7, :, :]
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
    damped, error = damping**2 * np.eye(6), np.empty((*target.shape[:-1], 6))
    for _ in range(iterations):
        frames = _frames(q)
        pose = frames[..., 7, :, :]
        rotation = TOOL_DOWN @ np.swapaxes(pose[..., :3, :3], -1, -2)
        error[..., :3] = target - pose[..., :3, 3]
        error[..., 3:] = 0.5 * (rotation[..., _LOWER, _LEFT] - rotation[..., _LEFT, _LOWER])
        jac = _jacobian(frames)
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


def _frames(q: Array) -> Array:
    """Poses `(..., 8, 4, 4)` of the seven joint frames and of the tool, in the base frame."""
    if q.shape[-1] != 7:
        raise ValueError(f"kinematics: expected 7 joint positions in the last axis, got shape {q.shape}")
    poses = np.empty((*q.shape[:-1], 8, 4, 4))
    poses[..., :7, :, :] = _LINK_FIXED[:7]
    c, s = np.cos(q), np.sin(q)
    links = poses[..., :7, :, :]
    links[..., 0, 0], links[..., 0, 1] = c, -s
    links[..., 1, 0], links[..., 1, 1] = s * _COS_ALPHA, c * _COS_ALPHA
    links[..., 2, 0], links[..., 2, 1] = s * _SIN_ALPHA, c * _SIN_ALPHA
    for joint in range(1, 7):
        poses[..., joint, :, :] = poses[..., joint - 1, :, :] @ poses[..., joint, :, :]
    poses[..., 7, :, :] = poses[..., 6, :, :] @ _TOOL
    return poses


def _link(theta: float, a: float, d: float, alpha: float) -> Array:
    """The pose `(4, 4)` of a frame in the one before it."""
    c, s, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    return np.array(
        [[c, -s, 0, a], [s * ca, c * ca, -sa, -d * sa], [s * sa, c * sa, ca, d * ca], [0, 0, 0, 1]],
        np.float64,
    )


# What of a link does not depend on its joint; flange and tool never move against the last one.
_LINK_FIXED = np.stack(
    [_link(0.0, *link) for link in zip(CHAIN.a_m, CHAIN.d_m, CHAIN.alpha_rad, strict=True)]
)
_COS_ALPHA, _SIN_ALPHA = np.cos(CHAIN.alpha_rad[:7]), np.sin(CHAIN.alpha_rad[:7])
_TOOL = _LINK_FIXED[7] @ _link(CHAIN.tool_turn_rad, 0.0, CHAIN.tool_offset_m, 0.0)
_LOWER, _LEFT = (
    np.array([2, 0, 1]),
    np.array([1, 2, 0]),
)  # entries of a rotation that say about which axis it turns


def _jacobian(frames: Array) -> Array:
    axis = frames[..., :7, :3, 2]
    reach = frames[..., 7:, :3, 3] - frames[..., :7, :3, 3]
    jac = np.empty((*axis.shape[:-2], 6, 7))
    # `np.cross` written out: it is six times slower on so few numbers.
    for at, (one, other) in enumerate(((1, 2), (2, 0), (0, 1))):
        jac[..., at, :] = axis[..., one] * reach[..., other] - axis[..., other] * reach[..., one]
    jac[..., 3:, :] = np.swapaxes(axis, -1, -2)
    return jac
