"""A robot's arm in a process of its own, so that a test can freeze or kill it: driver, control loop and chunk player.

    python -m tests.franka.robot ADDRESS        moves to and fro, and prints its state as one JSON object per line

Each line on standard input makes the driver recover.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rosa_client.drivers.arms import ArmState
from rosa_client.drivers.arms.franka import FrankaArm
from rosa_client.loops.arm_watch import ArmWatch
from rosa_client.loops.control_loop import ControlLoop
from rosa_client.motion.arm_orders import Command, MoveTo, OrderId
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.limits import MotionLimits
from rosa_contract.config.robot import RobotSpec, load_robot

ROBOT = Path(__file__).parents[2] / "configs" / "robots" / "fr3_franka.yaml"
# The file's own poses are those of a cell; these two are near the place where the simulated arm begins.
HERE_RAD = np.array([0.0, 0.0, 0.0, -1.57, 0.0, 1.57, 0.785])
THERE_RAD = HERE_RAD + np.array([0.2, -0.15, 0.15, -0.2, 0.15, 0.2, 0.3])
ALIVE_EVERY_S = 0.03


def spec_at(address: str) -> RobotSpec:
    """The robot file with a simulated arm's address. A simulated arm has no workspace of a cell."""
    arm = {"address": address, "real_time": "ignore"}
    return replace(load_robot(ROBOT), arm=arm, velocity_scale=0.2, workspace=None)


class Watched(FrankaArm):
    """The driver, which notes the setpoint that it gets."""

    asked_rad: npt.NDArray[np.float64] | None = None

    def track(self, command: Command) -> None:
        self.asked_rad = command.q_rad
        super().track(command)


class Arm:
    """The driver under the real control loop."""

    def __init__(self, address: str) -> None:
        spec = spec_at(address)
        self.driver = Watched(spec, 0)
        self.driver.connect("/fr3")
        self.player = ChunkPlayer(MotionLimits.of(spec), spec.control_rate_hz, spec.velocity_scale)
        self.state: ArmState | None = None
        self.noted: list[tuple[npt.NDArray[np.float64], ArmState]] = []  # setpoint and state of each period
        self._last = OrderId(0, 0)
        watch = ArmWatch(spec, self.driver.max_following_error_rad)
        self._loop = ControlLoop(self.driver, self.player, watch, spec.control_rate_hz, self._after)
        self._loop.start()
        self._ending = threading.Event()
        self._alive = threading.Thread(target=self._be_alive, daemon=True)
        self._alive.start()

    def move(self, q_rad: npt.ArrayLike, gripper_m: float = float("nan")) -> str:
        """Order a move; returns why it was refused."""
        self._last = OrderId(1, self._last.seq + 1)
        refusal = self._loop.order(self._last, MoveTo(np.asarray(q_rad), gripper_m)).result(2.0)
        return "" if refusal is None else refusal.cause

    def settle(self, timeout_s: float = 30.0) -> None:
        """Wait until the setpoint has arrived."""
        until_s = time.monotonic() + timeout_s
        while not self.player.settled:
            assert time.monotonic() < until_s, f"still {self.player.state} after {timeout_s:g} s"
            time.sleep(0.02)

    def recover(self) -> None:
        self._loop.submit(self.driver.recover).result(2.0)

    def close(self) -> None:
        self._ending.set()
        self._loop.stop()
        self.driver.close()

    def _after(self, now_s: float, state: ArmState) -> None:
        self.state = state
        if self.driver.asked_rad is not None:
            self.noted.append((self.driver.asked_rad, state))

    def _be_alive(self) -> None:
        while not self._ending.wait(ALIVE_EVERY_S):
            self._loop.alive(self._last)


def to_and_fro(arm: Arm) -> None:
    """Move between two poses without end."""
    goal = THERE_RAD
    while True:
        if arm.player.settled and not arm.player.fault:
            arm.move(goal)
            goal = HERE_RAD if goal is THERE_RAD else THERE_RAD
        time.sleep(0.05)


def main() -> None:
    arm = Arm(sys.argv[1])
    threading.Thread(target=to_and_fro, args=(arm,), daemon=True).start()
    threading.Thread(target=lambda: [arm.recover() for _ in sys.stdin], daemon=True).start()
    while True:
        time.sleep(0.05)
        if (state := arm.state) is not None:
            said = {"q_rad": state.q_rad.tolist(), "fault": state.fault, "age_s": state.age_s}
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
