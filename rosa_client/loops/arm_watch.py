"""What is known of an arm: the measurements that count, and every reason why it must not be moved.

Pure: what a driver read and the time go in; a state that can be relied on, and a fault, come out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rosa_client.drivers.arms import ArmState, Array
from rosa_client.motion.following import DRIVER
from rosa_client.motion.measurement import MeasurementCheck, Sample
from rosa_client.motion.refusal import Refusal
from rosa_contract.config.robot import RobotSpec

BEHIND_FOR_S = 0.2  # a fault that came and went between two looks of the robot's core would call nobody


class ArmWatch:
    """Looks at each state that a driver reads. Times are monotonic, in s."""

    def __init__(self, spec: RobotSpec, max_following_error_rad: float = math.inf) -> None:
        self._joints: Sequence[str] = spec.joints
        self._max_error_rad = max_following_error_rad
        self._check = MeasurementCheck(spec.joints, spec.limits)
        # What the check said and where it came from, and both in one.
        self._doubt: tuple[tuple[Refusal, str], Refusal] | None = None
        self._behind: Refusal | None = None
        self._behind_s = -math.inf

    @property
    def q_rad(self) -> Array:
        """Where the arm is `(dof,)`; only once `begin` has returned None."""
        assert self._check.trusted is not None
        return self._check.trusted

    def begin(self, now_s: float, state: ArmState) -> Refusal | None:
        """The first looks; returns why the arm's position is not certain yet. A simulated arm may begin anew."""
        if state.samples is None:
            self._check.adopt(state.q_rad, now_s)
        return self._doubts(now_s, state)

    def look(
        self, now_s: float, state: ArmState, expected_rad: Array | None
    ) -> tuple[ArmState, Refusal | None]:
        """The state with the newest position that counts, and why the arm must not be moved.

        `expected_rad` (dof,): where the arm was told to be, None if it was told nothing or is only on its way there.

        Causes: arm_driver, not_following, and those of `MeasurementCheck.fault`.
        """
        if state.fault:
            self._check.question()
        doubt = self._doubts(now_s, state)
        fault = Refusal(DRIVER, state.fault) if state.fault else doubt
        fault = fault or self._following(now_s, expected_rad)
        if state.samples is not None:
            state = replace(state, q_rad=self.q_rad, age_s=max(0.0, self._check.age_s(now_s)))
        if doubt is not None:
            state = replace(state, q_rad=self.q_rad, velocity_rad_s=np.zeros_like(self.q_rad))
        return state, fault

    def _doubts(self, now_s: float, state: ArmState) -> Refusal | None:
        samples = (Sample(state.q_rad, now_s),) if state.samples is None else state.samples
        for sample in samples:
            self._check.take(sample)
        self._check.watch(now_s)
        fault = self._check.fault
        if fault is None:
            self._doubt = None
            return None
        known = fault, state.source
        # Anew when the source is known better: the publisher is often found only after the first lie.
        if self._doubt is None or self._doubt[0] != known:
            where = f" ({state.source})" if state.source else ""
            self._doubt = known, replace(fault, reason=f"{fault.reason}{where}")
        return self._doubt[1]

    def _following(self, now_s: float, expected_rad: Array | None) -> Refusal | None:
        """An arm that gets no command has nothing to follow, so the fault ends by itself a little later."""
        if expected_rad is not None and self._check.fault is None:
            away = np.abs(expected_rad - self.q_rad)
            joint = int(np.argmax(away))
            if away[joint] > self._max_error_rad and now_s - self._behind_s >= BEHIND_FOR_S:
                self._behind = Refusal(
                    "not_following",
                    f"{self._joints[joint]} is {away[joint]:.2f} rad from its setpoint, expected at most"
                    f" {self._max_error_rad:g} rad: something holds the arm, or its controller does not follow",
                )
                self._behind_s = now_s
        return self._behind if now_s - self._behind_s < BEHIND_FOR_S else None
