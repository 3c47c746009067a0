"""Commands for drivers, as they come from the last check."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rosa_client.motion.arm_orders import Command


def sent(
    q_rad: npt.ArrayLike,
    gripper_m: float = 0.08,
    within_s: float = 0.01,
    before_rad: npt.ArrayLike | None = None,
) -> Command:
    """Be at `q_rad` (dof,) after `within_s`, coming from `before_rad`; then rest a little further on."""
    q = np.asarray(q_rad, dtype=np.float64)
    velocity = np.zeros_like(q) if before_rad is None else (q - np.asarray(before_rad)) / within_s
    return Command(
        q,
        velocity,
        q + 0.05 * velocity,
        0.1 if before_rad is not None else 0.0,
        np.array([gripper_m]),
        within_s,
    )
