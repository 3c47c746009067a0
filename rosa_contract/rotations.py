"""Rotations as models write them, and as matrices. All functions take any leading axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
TINY = 1e-9
SIZES = {"axis_angle": 3, "rpy": 3, "quaternion_xyzw": 4, "quaternion_wxyz": 4, "rotation_6d": 6}


def matrix(name: str, values: Array) -> Array:
    """`(..., n)` rad -> `(..., 3, 3)`. `rpy`: about the fixed axes x, then y, then z. Raises `KeyError`."""
    return FROM[name](np.asarray(values, np.float64))


def written(name: str, rotation: Array) -> Array:
    """`(..., 3, 3)` -> `(..., n)` rad; the inverse of `matrix`. A quaternion has w >= 0."""
    return TO[name](np.asarray(rotation, np.float64))


def _from_axis_angle(values: Array) -> Array:
    angle = np.linalg.norm(values, axis=-1, keepdims=True)
    axis = values / np.maximum(angle, TINY)
    return _from_xyzw(np.concatenate([axis * np.sin(angle / 2), np.cos(angle / 2)], axis=-1))


def _from_xyzw(values: Array) -> Array:
    x, y, z, w = np.moveaxis(values / np.linalg.norm(values, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _from_rpy(values: Array) -> Array:
    half = values / 2
    (sr, sp, sy), (cr, cp, cy) = np.moveaxis(np.sin(half), -1, 0), np.moveaxis(np.cos(half), -1, 0)
    return _from_xyzw(
        np.stack(
            [
                sr * cp * cy - cr * sp * sy,
                cr * sp * cy + sr * cp * sy,
                cr * cp * sy - sr * sp * cy,
                cr * cp * cy + sr * sp * sy,
            ],
            axis=-1,
        )
    )


def _from_6d(values: Array) -> Array:
    """The first two rows, made orthonormal (Zhou et al. 2019)."""
    first = values[..., :3] / np.linalg.norm(values[..., :3], axis=-1, keepdims=True)
    second = values[..., 3:] - np.sum(first * values[..., 3:], axis=-1, keepdims=True) * first
    second /= np.linalg.norm(second, axis=-1, keepdims=True)
    return np.stack([first, second, np.cross(first, second)], axis=-2)


def _to_xyzw(rotation: Array) -> Array:
    m = rotation
    trace = np.trace(m, axis1=-2, axis2=-1)
    diagonal = [m[..., i, i] for i in range(3)]
    # The four ways to write it; the one with the largest divisor loses no digits.
    ways = np.stack(
        [
            _stack(
                1 + 2 * diagonal[0] - trace,
                m[..., 0, 1] + m[..., 1, 0],
                m[..., 0, 2] + m[..., 2, 0],
                m[..., 2, 1] - m[..., 1, 2],
            ),
            _stack(
                m[..., 0, 1] + m[..., 1, 0],
                1 + 2 * diagonal[1] - trace,
                m[..., 1, 2] + m[..., 2, 1],
                m[..., 0, 2] - m[..., 2, 0],
            ),
            _stack(
                m[..., 0, 2] + m[..., 2, 0],
                m[..., 1, 2] + m[..., 2, 1],
                1 + 2 * diagonal[2] - trace,
                m[..., 1, 0] - m[..., 0, 1],
            ),
            _stack(
                m[..., 2, 1] - m[..., 1, 2],
                m[..., 0, 2] - m[..., 2, 0],
                m[..., 1, 0] - m[..., 0, 1],
                1 + trace,
            ),
        ],
        axis=-2,
    )
    best = np.argmax(np.abs(np.diagonal(ways, axis1=-2, axis2=-1)), axis=-1)
    found = np.take_along_axis(ways, best[..., None, None], axis=-2)[..., 0, :]
    found /= np.linalg.norm(found, axis=-1, keepdims=True)
    return np.where(found[..., 3:] < 0, -found, found)


def _stack(*values: Array) -> Array:
    return np.stack(values, axis=-1)


def _to_axis_angle(rotation: Array) -> Array:
    quaternion = _to_xyzw(rotation)
    sine = np.linalg.norm(quaternion[..., :3], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(sine, quaternion[..., 3:])
    return np.where(
        sine > TINY, quaternion[..., :3] / np.maximum(sine, TINY) * angle, 2 * quaternion[..., :3]
    )


def _to_rpy(rotation: Array) -> Array:
    m = rotation
    pitch = np.arctan2(-m[..., 2, 0], np.hypot(m[..., 0, 0], m[..., 1, 0]))
    upright = np.hypot(m[..., 0, 0], m[..., 1, 0]) > TINY  # else roll and yaw turn about one axis: yaw is 0
    roll = np.where(upright, np.arctan2(m[..., 2, 1], m[..., 2, 2]), np.arctan2(-m[..., 1, 2], m[..., 1, 1]))
    yaw = np.where(upright, np.arctan2(m[..., 1, 0], m[..., 0, 0]), 0.0)
    return np.stack([roll, pitch, yaw], axis=-1)


def _to_6d(rotation: Array) -> Array:
    return np.concatenate([rotation[..., 0, :], rotation[..., 1, :]], axis=-1)


def _wxyz(values: Array) -> Array:
    return np.roll(values, 1, axis=-1)


FROM: dict[str, Callable[[Array], Array]] = {
    "axis_angle": _from_axis_angle,
    "rpy": _from_rpy,
    "quaternion_xyzw": _from_xyzw,
    "quaternion_wxyz": lambda values: _from_xyzw(np.roll(values, -1, axis=-1)),
    "rotation_6d": _from_6d,
}
TO: dict[str, Callable[[Array], Array]] = {
    "axis_angle": _to_axis_angle,
    "rpy": _to_rpy,
    "quaternion_xyzw": _to_xyzw,
    "quaternion_wxyz": lambda rotation: _wxyz(_to_xyzw(rotation)),
    "rotation_6d": _to_6d,
}
