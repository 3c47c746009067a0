"""An arm that is always exactly at its setpoint, without physics: for replayed sensors and for tests."""

from __future__ import annotations

import numpy as np

from rosa_client.drivers.arms import ArmState
from rosa_client.motion.arm_orders import Command
from rosa_contract.config.robot import RobotSpec


class EchoArm:
    """Starts at home with open grippers."""

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        open_m = np.array([gripper.max_m for gripper in spec.grippers.values()])
        self._state = ArmState(np.array(spec.home_rad), np.zeros(len(spec.joints)), open_m)

    def read(self) -> ArmState:
        return self._state

    def track(self, command: Command) -> None:
        self._state = ArmState(command.q_rad, command.velocity_rad_s, command.gripper_m)

    def idle(self, period_s: float) -> None:
        pass

    def close(self) -> None:
        pass
