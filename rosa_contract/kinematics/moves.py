"""Rows of any mode as places: deltas, velocities and tool poses become joint positions, from where the arm was seen.

Both sides do it with these: an adapter on the server, and a robot that carries out other spaces (`config/spaces.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.adapter import ABSOLUTE, BASE, DELTA, STEP_DELTA, TOOL, VELOCITY
from rosa_contract.kinematics.arm import Arm
from rosa_contract.rotations import matrix, written

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Move:
    """Rows `(rows, n)` in rad or m, per second with mode `velocity`; or rotations `(rows, 3, 3)`, then by how much."""

    values: Array
    mode: str = ABSOLUTE
    frame: str = BASE  # whose axes a delta or a velocity is along


def placed(move: Move, here: Array, step_s: float) -> Array:
    """Rows `(rows, n)` as places, from where the robot is `(n,)`. `step_s`: time of a row, for velocities."""
    values = move.values
    if move.mode == ABSOLUTE:
        return values
    if move.mode == DELTA:
        return here + values
    if move.mode == VELOCITY:
        values = values * step_s
    return here + np.cumsum(values, axis=0)


def turned(move: Move, here: Array, step_s: float) -> Array:
    """Rotations `(rows, 3, 3)` as orientations, from that of the tool `(3, 3)`."""
    turns = move.values
    if move.mode == ABSOLUTE:
        return turns
    if move.mode == VELOCITY:
        turns = matrix("axis_angle", written("axis_angle", turns) * step_s)
    made, now = [], here
    for turn in turns:
        one = now @ turn if move.frame == TOOL else turn @ now
        made.append(one)
        now = here if move.mode == DELTA else one
    return np.stack(made)


def tool_poses(
    position: Array, orientation: Array, place: Move, rotation: Move | None, step_s: float
) -> tuple[Array, Array]:
    """Places `(rows, 3)` and orientations `(rows, 3, 3)` of the tool, from where it is, `(3,)` and `(3, 3)`.

    Without `rotation` the tool stays turned as it is.
    """
    steps = place.values
    rows = len(steps)
    rotations = (
        np.broadcast_to(orientation, (rows, 3, 3))
        if rotation is None
        else turned(rotation, orientation, step_s)
    )
    if place.frame == TOOL and place.mode != ABSOLUTE:
        # A step is along the tool's axes as they are before it.
        before = orientation[None]
        if place.mode in (STEP_DELTA, VELOCITY):
            before = np.concatenate([before, rotations[:-1]])
        steps = np.einsum("nij,nj->ni", np.broadcast_to(before, (rows, 3, 3)), steps)
    return placed(Move(steps, place.mode), position, step_s), rotations


def tool_path(
    arm: Arm,
    here_rad: Array,
    place: Move,
    rotation: Move | None,
    step_s: float,
    max_rounds: int | None = None,
) -> Array:
    """Joint positions `(rows, joints)` that bring the tool where the rows say, from where the arm was seen.

    `rotation` as of `tool_poses`, `max_rounds` as for `Arm.along`; raises as it does.
    """
    poses = tool_poses(*arm.pose(here_rad), place, rotation, step_s)
    return arm.along(here_rad, *poses, max_rounds)
