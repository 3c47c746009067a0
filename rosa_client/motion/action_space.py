"""Answers in other spaces than joint positions become joint positions here, before they are checked as any chunk is.

Deltas and velocities begin where the arm was seen. A path of the tool is followed by inverse kinematics with the chain
of the robot file, within the joint limits. One that the arm does not reach, or not without a joint that outruns its
speed by far, as near a singular pose, is refused whole: the arm holds, and the reason says which row. Whatever comes
from here, limits, workspace, setpoint filter and the last check before the driver hold as for any chunk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rosa_client.motion.chunk_check import BadChunk, step_s_of
from rosa_client.motion.refusal import Refusal
from rosa_contract.config.adapter import ABSOLUTE, JOINTS, STEP_DELTA, VELOCITY
from rosa_contract.config.robot import Limb, RobotSpec
from rosa_contract.config.spaces import ACTIONS, SPACES, TOOL_COLUMNS, Space, chunks_in
from rosa_contract.kinematics.arm import Arm, UnreachableError
from rosa_contract.kinematics.joining import blended, check_steps
from rosa_contract.kinematics.moves import Move, placed, tool_path
from rosa_contract.rotations import matrix
from rosa_contract.wire.messages import Output
from rosa_contract.wire.overlap import Overlap

Array = NDArray[np.float64]

JOINT_STATE, GRIPPER_STATE = "joint_position", "gripper_width"  # of an observation
MAX_TOOL_ROWS = 128  # of one chunk: inverse kinematics of a row takes some tenths of a millisecond
MAX_VALUE = 1e3  # of any column: what is far beyond every arm, and far from where arithmetic overflows
ROUNDS_PER_ROW = 4  # on average; a path that the arm follows needs two
EXTRA_ROUNDS = 60
# Between two rows that move the tool, times a joint's speed. Up to there the setpoint filter makes the way slower, as
# for any chunk; beyond, the joints would take another way than the tool was told.
MAX_OUTRUN = 2.0
NEAR_SINGULAR = 0.05  # smallest singular value of the tool's Jacobian (m and rad per rad)


class ActionSpaces:
    """What one robot makes of answers in the spaces that it takes."""

    def __init__(self, robot: RobotSpec) -> None:
        self._taken = robot.spaces
        self._joints = len(robot.joints)
        self._closed_m = np.array([one.min_m for one in robot.grippers.values()])  # (grippers,)
        self._open_m = np.array([one.max_m for one in robot.grippers.values()])
        limits = robot.limits
        self._velocity = np.array(limits.velocity_rad_s)
        self._arms = [
            (
                limb,
                Arm(limb.chain, limits.position_min_rad[limb.joints], limits.position_max_rad[limb.joints]),
            )
            for limb in robot.limbs
            if limb.chain is not None
        ]

    def in_joints(
        self,
        output: Output,
        seen: Mapping[str, Array] | None,
        told_m: Sequence[float] | None,
        period_s: float,
        overlap: Overlap | None = None,
    ) -> Output:
        """The answer in joint positions; one that is has to pass as it is.

        `seen`: the state arrays of the observation that it answers. `told_m`: the widths that the grippers were told
        last, which they keep where the answer orders none. `overlap`: what plays meanwhile; the answer joins it.

        Raises `BadChunk`; causes: several_actions, wrong_space, not_seen, not_finite, too_large, wrong_shape,
        step_time, too_long, unreachable, singular, too_fast.
        """
        found = chunks_in(output.arrays)
        if found == [ACTIONS] or not found:
            return output
        if len(found) > 1:
            raise _bad("several_actions", f"expected one array of actions, got {', '.join(found)}")
        [name] = found
        if name not in self._taken:
            taken = ", ".join((ACTIONS, *self._taken))
            raise _bad("wrong_space", f"the robot takes {taken}, the model answered {name}")
        seen_rad, seen_m = self._seen(name, seen)
        rows = np.asarray(output.arrays[name], np.float64)
        space = SPACES[name]
        self._check_form(name, space, rows)
        step_s = step_s_of(output, len(rows), period_s)
        columns = space.columns(self._joints, len(self._arms))
        q_rad = self._path(name, space, rows[:, :columns], seen_rad, step_s)
        held_m = seen_m if told_m is None else np.array(told_m, np.float64)
        chunk = np.column_stack([q_rad, self._widths(rows[:, columns:], held_m)])
        if overlap is not None:
            chunk = self._joined(chunk, overlap, step_s)
        kept: Mapping[str, NDArray[np.float64]] = {
            **{key: value for key, value in output.arrays.items() if key != name},
            ACTIONS: chunk,
        }
        return replace(output, arrays=kept)

    def _seen(self, name: str, seen: Mapping[str, Array] | None) -> tuple[Array, Array]:
        """Joint positions `(dof,)` and the widths `(grippers,)` when the robot looked."""
        given = {key: np.asarray(value, np.float64).ravel() for key, value in (seen or {}).items()}
        q_rad = given.get(JOINT_STATE, np.zeros(0))
        if q_rad.shape != (self._joints,) or not np.isfinite(q_rad).all():
            reason = f"{name}: expected an observation with {self._joints} joint positions, got {q_rad}"
            raise _bad("not_seen", reason)
        widths = given.get(GRIPPER_STATE, self._open_m) if len(self._open_m) else self._open_m
        if widths.shape != self._open_m.shape:
            reason = f"{name}: expected an observation with {len(self._open_m)} gripper widths, got {widths}"
            raise _bad("not_seen", reason)
        return q_rad, np.clip(widths, self._closed_m, self._open_m)

    def _check_form(self, name: str, space: Space, rows: Array) -> None:
        columns, widths = space.columns(self._joints, len(self._arms)), len(self._open_m)
        allowed = (columns, columns + widths) if widths else (columns,)
        if rows.ndim != 2 or rows.shape[1] not in allowed or not len(rows):
            wide = " or ".join(map(str, allowed))
            last = "the last one the gripper's" if widths == 1 else f"the last {widths} the grippers'"
            more = f", {last}" if widths else ", and the robot has no gripper"
            raise _bad(
                "wrong_shape", f"{name}: expected (rows, {wide}){more}, the model answered {rows.shape}"
            )
        if not np.isfinite(rows).all():
            raise _bad("not_finite", f"{name}: holds NaN or infinity")
        if np.abs(rows).max() > MAX_VALUE:
            reason = (
                f"{name}: holds {np.abs(rows).max():.3g}, expected at most {MAX_VALUE:g} (rad, m, per second)"
            )
            raise _bad("too_large", reason)
        if space.needs_chain and len(rows) > MAX_TOOL_ROWS:
            raise _bad("too_long", f"{name}: expected at most {MAX_TOOL_ROWS} rows, got {len(rows)}")

    def _path(self, name: str, space: Space, rows: Array, seen_rad: Array, step_s: float) -> Array:
        if space.to == JOINTS:
            return placed(Move(rows, space.mode), seen_rad, step_s)
        path = np.tile(seen_rad, (len(rows), 1))
        for number, (limb, arm) in enumerate(self._arms):
            mine = rows[:, number * TOOL_COLUMNS : (number + 1) * TOOL_COLUMNS]
            told = f"{name} of {limb.name}" if limb.name else name
            path[:, limb.joints] = self._follow(told, space, arm, limb, mine, seen_rad[limb.joints], step_s)
        return path

    def _follow(
        self, name: str, space: Space, arm: Arm, limb: Limb, rows: Array, seen_rad: Array, step_s: float
    ) -> Array:
        """The joint positions `(rows, joints)` of one arm that its tool's `rows` `(rows, 6)` lead to."""
        mode = space.mode
        if mode == VELOCITY:  # before they are rotations, which know no more than half a turn
            rows, mode = rows * step_s, STEP_DELTA
        turn_rad = float(np.linalg.norm(rows[:, 3:], axis=1).max())
        if mode != ABSOLUTE and turn_rad > math.pi:
            raise _bad(
                "too_large", f"{name}: turns by {turn_rad:.3g} rad in one row, expected at most half a turn"
            )
        place = Move(rows[:, :3], mode, space.frame)
        turns = Move(matrix("axis_angle", rows[:, 3:]), mode, space.frame)
        rounds = ROUNDS_PER_ROW * len(rows) + EXTRA_ROUNDS
        try:
            path = tool_path(arm, seen_rad, place, turns, step_s, rounds)
        except UnreachableError as error:
            raise _bad("unreachable", f"{name}: {error}") from None
        except np.linalg.LinAlgError as error:
            raise _bad("singular", f"{name}: inverse kinematics: {error}") from None
        self._check_speed(name, arm, limb, seen_rad, path, step_s)
        return path

    def _check_speed(
        self, name: str, arm: Arm, limb: Limb, seen_rad: Array, path: Array, step_s: float
    ) -> None:
        """No joint leaps between two rows."""
        steps = np.diff(np.vstack([seen_rad, path]), axis=0)
        over = np.abs(steps) / (step_s * self._velocity[limb.joints])
        row, joint = (int(one) for one in np.unravel_index(int(over.argmax()), over.shape))
        if over[row, joint] <= MAX_OUTRUN:
            return
        asked = f"joint {limb.joints.start + joint + 1} would turn {abs(steps[row, joint]):.2f} rad in {step_s:g} s"
        before = seen_rad if row == 0 else path[row - 1]
        if min(arm.closeness(one) for one in (before, path[row])) < NEAR_SINGULAR:
            raise _bad("singular", f"{name}: row {row} passes a singular pose: {asked}")
        raise _bad("too_fast", f"{name}: row {row} is faster than the arm: {asked}")

    def _widths(self, given: Array, held_m: Array) -> Array:
        """`(rows, grippers)` m, from as many fractions, or `(rows, 0)` where the model orders none."""
        if not given.shape[1]:
            return np.tile(held_m, (len(given), 1))
        return np.asarray(self._closed_m + np.clip(given, 0.0, 1.0) * (self._open_m - self._closed_m))

    def _joined(self, chunk: Array, overlap: Overlap, step_s: float) -> Array:
        """Blended into what plays, as a worker does it with joint positions."""
        try:
            check_steps(step_s, overlap)
        except ValueError as error:
            raise _bad("step_time", str(error)) from None
        return np.asarray(blended(chunk, overlap, len(self._open_m)), np.float64)


def _bad(cause: str, reason: str) -> BadChunk:
    return BadChunk(Refusal(cause, reason))
