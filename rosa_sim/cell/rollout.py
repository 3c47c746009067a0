"""Executes action chunks in a cell exactly as the robot does in synchronous mode.

The first 400 ms of a chunk are played at 20 Hz through the setpoint filter at the control rate; while the next
inference runs, the last setpoint stands, so the arm comes to rest there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rosa_client.motion.setpoint_filter import SetpointFilter
from rosa_sim.cell.arm import ArmInCell
from rosa_sim.cell.layout.hardware import CONTROL_RATE_HZ, panda

STEP_S = 0.05
EXECUTED_STEPS = 8  # 400 ms of a chunk of 16 steps
INFERENCE_S = 0.10  # how long the arm holds while the next chunk is made


class SynchronousArm:
    """Plays chunks in a world and keeps the setpoint filter's state between them."""

    def __init__(self, world: ArmInCell) -> None:
        self.world = world
        self._filter = SetpointFilter(panda().limits, CONTROL_RATE_HZ)
        self._width_m = world.gripper_width
        self.restart()

    def restart(self) -> None:
        """After the world was reset."""
        self._filter.reset(self.world.joint_position)
        self._width_m = self.world.gripper_width
        self._target = self.world.joint_position

    def play(self, actions: ArrayLike, executed_steps: int = EXECUTED_STEPS) -> None:
        """Play the first steps of `actions` `(steps, 8)`: joint positions rad and gripper width m."""
        for action in np.asarray(actions, dtype=np.float64)[:executed_steps]:
            self._target, self._width_m = action[:7], float(action[7])
            self._run(STEP_S)

    def wait(self, duration_s: float = INFERENCE_S) -> None:
        """Let the setpoint settle on the last step, as during an inference."""
        self._run(duration_s)

    def _run(self, duration_s: float) -> None:
        for _ in range(round(duration_s * CONTROL_RATE_HZ)):
            setpoint = self._filter.step(self._target)
            self.world.step(setpoint, self._width_m, 1.0 / CONTROL_RATE_HZ)
