"""Is this action chunk one that the robot may execute? Refused chunks are never clipped silently."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rosa_client.motion.limits import MAX_HORIZON, MotionLimits
from rosa_client.motion.refusal import Refusal
from rosa_contract.wire.horizon import Horizon
from rosa_contract.wire.messages import Output

MAX_PERIODS = (
    10  # action periods that a horizon may last: a wrong step time must not keep a robot from looking
)


class BadChunk(ValueError):
    """The chunk must not be executed; `refusal` says why.

    Causes: those of `MotionLimits.refusal`, and no_actions, not_finite, step_time, horizon.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def check_chunk(
    output: Output | None, limits: MotionLimits, period_s: float
) -> tuple[npt.NDArray[np.float64], float]:
    """`actions` (horizon, joints + grippers), rad and m, and the time of one row in s.

    A model that does not answer `step_s` spreads its horizon over the action period. Raises `BadChunk`.
    """
    if output is None or "actions" not in output.arrays:
        got = "nothing" if output is None else ", ".join(output.arrays) or "no array"
        raise BadChunk(Refusal("no_actions", f"expected an array 'actions', got {got}"))
    actions = np.asarray(output.arrays["actions"], np.float64)
    if actions.ndim != 2 or actions.shape[1] != limits.columns or not 1 <= actions.shape[0] <= MAX_HORIZON:
        count = len(limits.grippers)
        widths = {0: "no gripper", 1: "then the gripper's width"}.get(count, f"then {count} gripper widths")
        what = f"the joints, {widths}"
        expected = f"(1..{MAX_HORIZON}, {limits.columns})"
        raise BadChunk(Refusal("wrong_shape", f"actions: expected {expected}, got {actions.shape}: {what}"))
    refusal = limits.refusal(actions, "actions")
    if refusal is not None:  # what is not finite is within no limits
        finite = np.isfinite(actions).all()
        raise BadChunk(refusal if finite else Refusal("not_finite", "actions: holds NaN or infinity"))
    return actions, step_s_of(output, len(actions), period_s)


def step_s_of(output: Output, rows: int, period_s: float) -> float:
    """The time of one of the answer's rows, s. Raises `BadChunk`."""
    if "step_s" not in output.arrays:
        return period_s / rows
    given = np.asarray(output.arrays["step_s"], np.float64).ravel()
    if given.size != 1 or not 1e-3 <= given[0] <= 10:
        reason = f"step_s: expected one number from 0.001 to 10, got {given.tolist()[:4]}"
        raise BadChunk(Refusal("step_time", reason))
    return float(given[0])


def check_horizon(
    output: Output, policy: Horizon | None, steps: int, step_s: float, period_s: float
) -> int | None:
    """How many of the chunk's `steps` are played; None where the task has no horizon policy. Raises `BadChunk`.

    Only what the task's own policy allows is accepted, so that no answer makes the robot play for longer without a
    look, or stop and look more often, than its task says.
    """
    if policy is None:
        if output.horizon:
            reason = f"horizon: expected none, since the task has no horizon policy, got {output.horizon}"
            raise BadChunk(Refusal("horizon", reason))
        return None
    if problem := policy.refusal(output.horizon, steps):
        raise BadChunk(Refusal("horizon", f"horizon: {problem}"))
    if output.horizon * step_s > MAX_PERIODS * period_s:
        reason = f"expected at most {MAX_PERIODS * period_s:g} s, got {output.horizon} steps of {step_s:g} s"
        raise BadChunk(Refusal("horizon", f"horizon: {reason}"))
    return output.horizon
