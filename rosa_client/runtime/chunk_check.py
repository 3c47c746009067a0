"""Is this action chunk one that the robot may execute? Refused chunks are never clipped silently."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rosa_contract.messages import Output
from rosa_contract.robot import RobotSpec

TOLERANCE_RAD = 1e-3  # float32 rounding of a model that aims exactly at a limit
TOLERANCE_M = 1e-3
MAX_HORIZON = 1024


class BadChunk(ValueError):
    """The chunk must not be executed; the text says why."""


def check_chunk(
    output: Output | None, robot: RobotSpec, period_s: float
) -> tuple[npt.NDArray[np.float64], float]:
    """`actions` (horizon, joints + 1), rad and m, and the time of one row in s.

    A model that does not answer `step_s` spreads its horizon over the action period. Raises `BadChunk`.
    """
    joints = len(robot.joints)
    if output is None or "actions" not in output.arrays:
        got = "nothing" if output is None else ", ".join(output.arrays) or "no array"
        raise BadChunk(f"expected an array 'actions', got {got}")
    actions = np.asarray(output.arrays["actions"], np.float64)
    if actions.ndim != 2 or actions.shape[1] != joints + 1 or not 1 <= actions.shape[0] <= MAX_HORIZON:
        raise BadChunk(f"actions: expected (1..{MAX_HORIZON}, {joints + 1}), got {actions.shape}")
    if not np.isfinite(actions).all():
        raise BadChunk("actions: holds NaN or infinity")
    least = np.array(robot.limits.position_min_rad) - TOLERANCE_RAD
    most = np.array(robot.limits.position_max_rad) + TOLERANCE_RAD
    outside = (actions[:, :joints] < least) | (actions[:, :joints] > most)
    if outside.any():
        row, joint = (int(index) for index in np.argwhere(outside)[0])
        raise BadChunk(
            f"actions[{row}]: {robot.joints[joint]} at {actions[row, joint]:.3f} rad is outside"
            f" {robot.limits.position_min_rad[joint]:.3f}..{robot.limits.position_max_rad[joint]:.3f}"
        )
    width = actions[:, joints]
    if (width < robot.gripper.min_m - TOLERANCE_M).any() or (width > robot.gripper.max_m + TOLERANCE_M).any():
        raise BadChunk(f"actions: gripper width outside {robot.gripper.min_m:g}..{robot.gripper.max_m:g} m")
    step_s = period_s / actions.shape[0]
    if "step_s" in output.arrays:
        given = np.asarray(output.arrays["step_s"], np.float64).ravel()
        if given.size != 1 or not 1e-3 <= given[0] <= 10:
            raise BadChunk(f"step_s: expected one number from 0.001 to 10, got {given.tolist()[:4]}")
        step_s = float(given[0])
    return actions, step_s
