"""The twin of `flow_policy.py` in JAX, with the same weights: for backend `jax_policy`, and as an example of one.

It answers where the tool goes from where it was seen (`tool_delta`), and leaves inverse kinematics to the robot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

Parameters = Mapping[str, Array]

FLOW_STEPS, HORIZON, STEP_S = 8, 16, 0.05
CHUNK = HORIZON * 4
MAX_WIDTH_M, DISPLACEMENT_M, NORM_EPSILON = 0.08, 0.15, 1e-5
CENTRE_M = (0.5, 0.03, 0.2)
REACH_LOW_M, REACH_HIGH_M = (0.28, -0.45, 0.008), (0.72, 0.50, 0.60)
# The chain of `configs/robots/panda.yaml`, which a worker in a separate environment does not have.
A_M = (0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088, 0.0)
D_M = (0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.0, 0.107)
ALPHA_RAD = tuple(turns * math.pi / 2 for turns in (0, -1, 1, 1, -1, 1, 1, 0))
TOOL_TURN_RAD, TOOL_OFFSET_M = -math.pi / 4, 0.1034
NOISE = "noise"  # a parameter of this name, (64,), is where the flow begins; without it, what `key` gives


def policy(parameters: Parameters, observation: Mapping[str, Any]) -> dict[str, Array]:
    """`tool_delta` `(batch, 16, 7)`: m, no turn, and 0 (closed) or 1 (open); and `step_s`."""
    joints, width = observation["state"]["joint_position"], observation["state"]["gripper_width"]
    tool = tool_position(joints)
    told = jnp.concatenate(
        [joints / 2.0, width / MAX_WIDTH_M * 2 - 1, (tool - jnp.array(CENTRE_M)) / 0.2], axis=-1
    )
    noise = parameters[NOISE] if NOISE in parameters else jax.random.normal(observation["key"], (CHUNK,))
    seen = [_encoded(parameters, name, observation["images"][name]) for name in ("front", "wrist")]
    hidden = jax.nn.silu(_linear(parameters, "condition.0", jnp.concatenate([*seen, told], axis=-1)))
    chunk = refined(parameters, _linear(parameters, "condition.2", hidden), noise)
    steps = chunk.reshape(len(tool), HORIZON, 4)
    here = tool[:, None]
    low, high = jnp.array(REACH_LOW_M), jnp.array(REACH_HIGH_M)
    moves = jnp.clip(steps[..., :3] * DISPLACEMENT_M + here, low, high) - here
    opened = (steps[..., 3:] > 0.0).astype(jnp.float32)
    return {
        "tool_delta": jnp.concatenate([moves, jnp.zeros_like(moves), opened], axis=-1),
        "step_s": jnp.full((len(tool), 1), STEP_S, jnp.float32),
    }


def refined(parameters: Parameters, condition: Array, noise: Array) -> Array:
    """Chunks `(batch, 64)` from `noise` `(64,)`, by Euler steps under `condition` `(batch, width)`."""
    chunk = jnp.broadcast_to(noise, (len(condition), CHUNK))
    for step in range(FLOW_STEPS):
        chunk = chunk + _velocity(parameters, chunk, step / FLOW_STEPS, condition) / FLOW_STEPS
    return chunk


def tool_position(joints: Array) -> Array:
    """`(batch, 7)` rad -> `(batch, 3)` m, in the base frame."""
    pose = jnp.broadcast_to(jnp.eye(4), (len(joints), 4, 4))
    angles = jnp.concatenate([joints, jnp.zeros((len(joints), 1))], axis=-1)
    for index, (a, d, alpha) in enumerate(zip(A_M, D_M, ALPHA_RAD, strict=True)):
        pose = pose @ _link(angles[:, index], a, d, alpha)
    return (pose @ _link(jnp.full(len(joints), TOOL_TURN_RAD), 0.0, TOOL_OFFSET_M, 0.0))[:, :3, 3]


def _link(angle: Array, a: float, d: float, alpha: float) -> Array:
    c, s = jnp.cos(angle), jnp.sin(angle)
    ca, sa = jnp.cos(alpha), jnp.sin(alpha)
    zero, one = jnp.zeros_like(c), jnp.ones_like(c)
    rows = [
        [c, -s, zero, a * one],
        [s * ca, c * ca, -sa * one, -d * sa * one],
        [s * sa, c * sa, ca * one, d * ca * one],
        [zero, zero, zero, one],
    ]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def _velocity(parameters: Parameters, chunk: Array, time: float, condition: Array) -> Array:
    angles = time * jnp.pi * 2.0 ** jnp.arange(-1, 4, 5 / 16)
    told = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)])[None].astype(jnp.float32)
    hidden = _linear(parameters, "enter", chunk) + _linear(parameters, "time", told) + condition
    block = 0
    while f"blocks.{block}.0.weight" in parameters:
        inner = _linear(parameters, f"blocks.{block}.1", _layer_norm(parameters, f"blocks.{block}.0", hidden))
        hidden = hidden + _linear(parameters, f"blocks.{block}.3", jax.nn.silu(inner))
        block += 1
    return _linear(parameters, "leave.1", _layer_norm(parameters, "leave.0", hidden))


def _encoded(parameters: Parameters, name: str, pictures: Array) -> Array:
    """`(batch, 96, 96, 3)` uint8 -> where each feature is and how strong, `(batch, 3 channels)`."""
    images = pictures.astype(jnp.float32).transpose(0, 3, 1, 2) / 127.5 - 1.0
    vivid = images.max(axis=1, keepdims=True) - images.min(axis=1, keepdims=True)
    maps = jnp.concatenate([images, vivid], axis=1)
    maps = jax.nn.relu(_convolved(parameters, f"{name}.layers.0", maps, 2, 2))
    maps = _convolved(parameters, f"{name}.layers.2", maps, 2, 1)
    maps = jax.nn.relu(_group_norm(parameters, f"{name}.layers.3", maps, 4))
    maps = _convolved(parameters, f"{name}.layers.5", maps, 1, 1)
    maps = jax.nn.relu(_group_norm(parameters, f"{name}.layers.6", maps, 4))
    maps = _convolved(parameters, f"{name}.layers.8", maps, 1, 1)
    batch, channels, size, _ = maps.shape
    flat = maps.reshape(batch, channels, -1)
    share = jax.nn.softmax(flat, axis=-1).reshape(maps.shape)
    ways = jnp.linspace(-1.0, 1.0, size)
    x, y = (share.sum(axis=2) * ways).sum(axis=-1), (share.sum(axis=3) * ways).sum(axis=-1)
    return jnp.concatenate([x, y, jnp.tanh(0.25 * flat.max(axis=-1))], axis=-1)


def _linear(parameters: Parameters, name: str, values: Array) -> Array:
    return values @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"]


def _convolved(parameters: Parameters, name: str, maps: Array, stride: int, padding: int) -> Array:
    made = jax.lax.conv_general_dilated(
        maps, parameters[f"{name}.weight"], (stride, stride), [(padding, padding)] * 2
    )
    return made + parameters[f"{name}.bias"][None, :, None, None]


def _layer_norm(parameters: Parameters, name: str, values: Array) -> Array:
    mean = values.mean(axis=-1, keepdims=True)
    spread = values.var(axis=-1, keepdims=True)
    normal = (values - mean) / jnp.sqrt(spread + NORM_EPSILON)
    return normal * parameters[f"{name}.weight"] + parameters[f"{name}.bias"]


def _group_norm(parameters: Parameters, name: str, maps: Array, groups: int) -> Array:
    batch, channels = maps.shape[:2]
    grouped = maps.reshape(batch, groups, -1)
    mean, spread = grouped.mean(axis=-1, keepdims=True), grouped.var(axis=-1, keepdims=True)
    normal = ((grouped - mean) / jnp.sqrt(spread + NORM_EPSILON)).reshape(maps.shape)
    shape = (1, channels, 1, 1)
    return normal * parameters[f"{name}.weight"].reshape(shape) + parameters[f"{name}.bias"].reshape(shape)
