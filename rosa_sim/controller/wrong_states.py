"""Joint states that are wrong on purpose: what a broadcaster publishes instead of the truth. Pure."""

from __future__ import annotations

import numpy as np

from rosa_sim.controller.following import Array

OFF_RAD = 0.5
JUMPS_EVERY_S = 0.2  # there and back


class WrongStates:
    """Falsifies the positions `(dof,)` and the stamp of each joint state while a fault is on."""

    KINDS = ("frozen_stamps", "wrong_sample", "joint_jump")

    def __init__(self) -> None:
        self._kind = ""
        self._first: tuple[Array, float] | None = None  # the first joint state since the fault began

    def turn(self, fault: str) -> None:
        """Begin a kind, or end it with any other text."""
        self._kind, self._first = (fault if fault in self.KINDS else ""), None

    def state(self, q_rad: Array, stamp_s: float) -> tuple[Array, float]:
        """What is published for the true position `q_rad` (dof,) of `stamp_s`."""
        is_first = self._first is None
        if self._first is None:
            self._first = q_rad, stamp_s
        if self._kind == "frozen_stamps":  # the last joint state again and again
            return self._first
        off = np.zeros_like(q_rad)
        since_s = stamp_s - self._first[1]
        if (self._kind == "wrong_sample" and is_first) or (
            self._kind == "joint_jump" and since_s % JUMPS_EVERY_S < JUMPS_EVERY_S / 2
        ):
            off[0] = OFF_RAD
        return q_rad + off, stamp_s
