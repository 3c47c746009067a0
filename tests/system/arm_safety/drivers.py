"""Arms that fail, named to the arm node by module:Class."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from rosa_client.drivers.arms import ArmState
from rosa_client.drivers.arms.echo import EchoArm
from rosa_client.motion.arm_orders import Command
from rosa_contract.config.robot import RobotSpec

RECOVERS_AFTER_S = 1.5


class BreakingArm(EchoArm):
    """Raises, once and for all, when it was turned by more than 0.02 rad."""

    def track(self, command: Command) -> None:
        if self.read().q_rad[0] > 0.02:
            raise ConnectionError("the arm's controller does not answer")
        super().track(command)


class ReflexArm(EchoArm):
    """Reports a reflex when it is turned by more than 0.1 rad, recovers by itself, and is then well."""

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        super().__init__(spec, seed)
        self._since_s = 0.0

    def read(self) -> ArmState:
        state = super().read()
        if not self._since_s and state.q_rad[0] > 0.1:
            self._since_s = time.monotonic()
        ill = self._since_s and time.monotonic() - self._since_s < RECOVERS_AFTER_S
        return replace(state, fault="joint 1: cartesian reflex" if ill else "")


class HaltingArm(EchoArm):
    """Its gripper tells whether it obeys: closed while it begins nothing."""

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        super().__init__(spec, seed)
        self._halted = False

    def halt(self) -> None:
        self._halted = True

    def go_on(self) -> None:
        self._halted = False

    def recover(self) -> None:
        self._halted = False

    def read(self) -> ArmState:
        return replace(super().read(), gripper_m=np.array([0.0 if self._halted else 0.08]))


class TardyArm(EchoArm):
    """Measures a fifth of a second late."""

    def read(self) -> ArmState:
        return replace(super().read(), age_s=0.2)
