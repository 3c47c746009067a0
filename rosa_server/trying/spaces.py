"""Answers in other spaces than joint positions, as the robot that carries them out would: for a trial, without its
limits of speed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.adapter import ABSOLUTE, JOINTS, STEP_DELTA, VELOCITY
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.spaces import ACTIONS, SPACES, TOOL_COLUMNS, Space, chunks_in
from rosa_contract.kinematics.arm import Arm, UnreachableError
from rosa_contract.kinematics.moves import Move, placed, tool_path
from rosa_contract.rotations import matrix
from rosa_server.models.backend import ModelOutput
from rosa_server.trying.steps import GRIPPER, Array, TrialStep
from rosa_server.trying.steps import JOINTS as JOINT_STATE


def other_space(output: ModelOutput) -> str:
    """In which space the answer is; empty: joint positions, or no actions."""
    return next((name for name in chunks_in(output.arrays) if name != ACTIONS), "")


class OtherSpaces:
    """What one robot makes of such answers; without a robot file only joints' deltas and speeds."""

    def __init__(self, robot: RobotSpec | None, ranges: Sequence[tuple[float, float]] = ()) -> None:
        """`ranges`: closed and open width of each gripper, m, where no robot file says it."""
        self._ranges = [(one.min_m, one.max_m) for one in robot.grippers.values()] if robot else list(ranges)
        self._arms = (
            [
                (
                    limb.joints,
                    Arm(
                        limb.chain,
                        robot.limits.position_min_rad[limb.joints],
                        robot.limits.position_max_rad[limb.joints],
                    ),
                )
                for limb in robot.limbs
                if limb.chain is not None
            ]
            if robot is not None
            else []
        )

    def rows(self, output: ModelOutput, step: TrialStep, step_s: float) -> Array | None:
        """Joints, rad, and widths, m, `(rows, columns)`; None where that cannot be known. Raises `UnreachableError`."""
        name = other_space(output)
        space, told = SPACES[name], np.asarray(output.arrays[name], np.float64)
        if JOINT_STATE not in step.state or (space.needs_chain and not self._arms):
            return None
        here = np.asarray(step.state[JOINT_STATE], np.float64)
        columns = space.columns(len(here), len(self._arms))
        if told.ndim != 2 or not len(told) or not np.isfinite(told).all():
            return None
        if told.shape[1] not in (columns, columns + len(self._ranges or step.state.get(GRIPPER, ()))):
            return told  # of another width than the robot's, which a judge names
        joints = (
            placed(Move(told[:, :columns], space.mode), here, step_s)
            if space.to == JOINTS
            else self._followed(space, told, here, step_s)
        )
        return np.concatenate([joints, self._widths(told[:, columns:], step)], axis=1)

    def _followed(
        self, space: Space, told: NDArray[np.float64], here: NDArray[np.float64], step_s: float
    ) -> Array:
        path: Any = np.tile(here, (len(told), 1))
        for number, (mine, arm) in enumerate(self._arms):
            rows, mode = told[:, number * TOOL_COLUMNS : (number + 1) * TOOL_COLUMNS], space.mode
            if mode == VELOCITY:  # before they are rotations, which know no more than half a turn
                rows, mode = rows * step_s, STEP_DELTA
            if mode != ABSOLUTE and np.linalg.norm(rows[:, 3:], axis=1).max() > np.pi:
                raise UnreachableError("turns by more than half a turn in one row")
            place = Move(rows[:, :3], mode, space.frame)
            turns = Move(matrix("axis_angle", rows[:, 3:]), mode, space.frame)
            path[:, mine] = tool_path(arm, here[mine], place, turns, step_s)
        return np.asarray(path)

    def _widths(self, given: Array, step: TrialStep) -> Array:
        if given.shape[1]:
            low, high = np.array(self._named(given.shape[1])).T
            return np.asarray(low + np.clip(given, 0.0, 1.0) * (high - low))
        return np.tile(np.asarray(step.state.get(GRIPPER, ()), np.float64), (len(given), 1))

    def _named(self, count: int) -> Sequence[tuple[float, float]]:
        known = self._ranges or [(0.0, 1.0)]
        return [known[min(number, len(known) - 1)] for number in range(count)]
