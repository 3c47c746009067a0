"""Is this action chunk one that the robot may execute? Refused chunks are never clipped silently."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rosa_client.motion.limits import MAX_HORIZON, MotionLimits
from rosa_contract.messages import Output
from rosa_contract.robot import RobotSpec


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
    refusal = MotionLimits.of(robot).refusal(actions, "actions")
    if refusal:
        raise BadChunk(refusal)
    step_s = period_s / actions.shape[0]
    if "step_s" in output.arrays:
        given = np.asarray(output.arrays["step_s"], np.float64).ravel()
        if given.size != 1 or not 1e-3 <= given[0] <= 10:
            raise BadChunk(f"step_s: expected one number from 0.001 to 10, got {given.tolist()[:4]}")
        step_s = float(given[0])
    return actions, step_s
