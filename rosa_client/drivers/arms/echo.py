"""An arm that is always exactly at its setpoint, without physics: for replayed sensors and for tests."""

from __future__ import annotations

import numpy as np

from rosa_client.drivers.arms import ArmState, Array
from rosa_contract.robot import RobotSpec


class EchoArm:
    """Starts at home with an open gripper."""

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        self._state = ArmState(np.array(spec.home_rad), np.zeros(len(spec.joints)), spec.gripper.max_m)

    def read(self) -> ArmState:
        return self._state

    def track(self, q_rad: Array, gripper_m: float, period_s: float) -> None:
        self._state = ArmState(q_rad, (q_rad - self._state.q_rad) / period_s, gripper_m)

    def close(self) -> None:
        pass
