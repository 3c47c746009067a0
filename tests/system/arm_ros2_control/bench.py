"""A real arm node with the `ros2_control` driver, and the simulated controllers that it drives, each a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rosa_interfaces.msg import ArmCommand, ArmStatus
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from rosa_client.bringup.supervisor import BringupError
from rosa_client.nodes.base.environment import prepare_environment
from rosa_contract.config.robot import load_robot
from rosa_sim.faults.table import fault
from tests.system.arm_safety.bench import ROOT, SPEC, Bench, arm
from tests.system.services import known_by

ROBOT = ROOT / "configs" / "robots" / "panda_ros2_control.yaml"
CELL = "/robot/simulated_cell"
# What franka_ros2 has besides the controllers (its own names).
FRANKA = {
    "robot_state": "franka_robot_state_broadcaster/robot_state",
    "error_recovery": "action_server/error_recovery",
    "hardware": "FrankaHardwareInterface",
    "gripper": {"kind": "franka", "action": "franka_gripper"},
}
# An arm that comes back holds its setpoint when that is at most chunk_player.OFF_RAD away; the rest is the servo's.
STILL_RAD = fault("arm_fault").still_rad


class Controlled:
    """The bench of the arm node, and the simulated controllers under it."""

    def __init__(self, bench: Bench, cell: subprocess.Popen[bytes], base: str) -> None:
        self.bench = bench
        self.cell = cell
        self.truth: list[np.ndarray] = []  # where the arm really is, joints (7,)
        topic = f"{base.rstrip('/')}/joint_states"
        bench.node.create_subscription(JointState, topic, self._on_truth, 50)
        self._faults = bench.node.create_client(SetParameters, f"{CELL}/set_parameters")

    def break_down(self, fault: str) -> None:
        value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=fault)
        request = SetParameters.Request(parameters=[Parameter(name="fault", value=value)])
        self.bench.until(self._faults.service_is_ready, "the simulated cell")
        with known_by(self.bench.node, CELL) as known:
            self.bench.until(known, "the simulated cell to know its client")
        future = self._faults.call_async(request)
        self.bench.until(future.done, "the fault")
        assert future.result().results[0].successful, future.result()

    def fault(self, words: str) -> None:
        """Wait until the arm reports a fault with these words."""
        self.bench.until(lambda: words in self.bench.status.fault, f"the fault {words!r}")

    def recover(self) -> None:
        """As the runtime does when an operator decides so."""
        assert self.bench.call(Trigger, "recover", Trigger.Request()).success

    def moves(self) -> None:
        """The arm takes orders and follows them."""
        self.bench.home()

        def arrived() -> bool:
            there = abs(self.truth[-1][0] - SPEC.home_rad[0] - 0.2) < 0.02
            # This bench is a slow sender on a busy machine; the arm then holds, as it should, and is told again.
            if not there and self.bench.status.cut_short:
                assert "no sign of life" in self.bench.status.cut_short
                self.bench.play(0.2, 1.0)
            return there

        assert self.bench.play(0.2, 1.0).fault == ""
        self.bench.until(arrived, "the arm to follow")

    def in_motion(self) -> None:
        """At home, then turning."""
        self.bench.home()
        self.bench.play_for(0.7, 0.8, 4.0)

    def refuses(self) -> None:
        """The arm takes no order that moves it, and really stands."""
        assert self.bench.play(0.5, 2.0).state == ArmStatus.HOLDING
        assert self.stands(0.8) < STILL_RAD

    def fingers_stick(self) -> None:
        """Fingers that do not close are a fault until somebody has looked, and then close."""
        bench = self.bench
        bench.home()
        bench.until(lambda: bench.width_m > 0.075, "open fingers")
        bench.spin(0.3)
        self.break_down("gripper_stuck")
        close = {"joint_target_rad": list(SPEC.home_rad), "gripper_width_m": 0.0}
        bench.order(ArmCommand.MOVE_TO, **close)
        self.fault("the gripper does not move")
        self.refuses()
        self.break_down("")
        self.recover()
        bench.until(lambda: bench.status.fault == "", "the recovery")
        bench.order(ArmCommand.MOVE_TO, **close)
        bench.until(lambda: bench.width_m < 0.005, "closed fingers")
        self.moves()

    def stands(self, seconds: float) -> float:
        """How far any joint really moves within `seconds`, rad."""
        first = len(self.truth)
        self.bench.spin(seconds)
        seen = np.array(self.truth[first:])
        assert len(seen) > 10, "it goes on saying where it is"
        return float(np.ptp(seen, axis=0).max())

    def _on_truth(self, message: JointState) -> None:
        self.truth.append(np.array(message.position[:7]))


def robot_file(folder: Path, **arm_settings: Any) -> Path:
    """The Panda behind ros2_control with other settings of its arm."""
    arm = {**load_robot(ROBOT).arm, **arm_settings}
    document = {
        "extends": "rosa:panda.yaml",
        "arm_driver": "ros2_control",
        "camera_driver": "external",
        "arm": arm,
    }
    path = folder / "robot.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def cell_command(robot: Path) -> list[str]:
    arguments = ["-r", "__ns:=/robot", "-r", "__node:=simulated_cell", "-p", f"robot:={robot}"]
    return [sys.executable, "-m", "rosa_sim.controller.node", "--ros-args", *arguments]


@contextmanager
def controlled(robot: Path, base: str = "/", cell_robot: Path | None = None) -> Iterator[Controlled]:
    """Simulated controllers and an arm node that drives them; `base`: their namespace.

    `cell_robot`: the robot file of the controllers, where it is not that of the arm node.
    """
    prepare_environment()
    cell = subprocess.Popen(cell_command(cell_robot or robot), env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        with arm("ros2_control", robot) as bench:
            made = Controlled(bench, cell, base)
            bench.until(lambda: made.truth, "the controllers' joint states")
            yield made
    finally:
        cell.send_signal(signal.SIGTERM)
        try:
            cell.wait(timeout=10)
        except subprocess.TimeoutExpired:
            cell.kill()
            cell.wait()
            raise BringupError("the simulated cell did not end") from None
