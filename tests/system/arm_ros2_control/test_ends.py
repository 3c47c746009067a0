"""One side is gone: the arm is held, or the node says what it waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rosa_interfaces.msg import ArmCommand, ArmStatus

from tests.system.arm_ros2_control.bench import ROBOT, STILL_RAD, controlled, robot_file
from tests.system.arm_safety.bench import ROOT, SPEC

pytestmark = pytest.mark.slow


def test_an_arm_node_that_dies_leaves_the_arm_held() -> None:
    with controlled(ROBOT) as one:
        one.in_motion()
        os.kill(one.bench.arm_pid, signal.SIGKILL)
        one.bench.spin(0.3)
        assert one.stands(1.0) < STILL_RAD


def test_controllers_that_die_are_a_fault() -> None:
    with controlled(ROBOT) as one:
        one.in_motion()
        one.cell.kill()
        one.fault("no new joint states on /joint_states")
        assert one.bench.play(0.5, 2.0).state == ArmStatus.HOLDING


def test_simulated_controllers_end_in_order_while_the_fingers_are_on_their_way() -> None:
    with controlled(ROBOT) as one:
        one.bench.home()
        one.bench.until(lambda: one.bench.width_m > 0.075, "open fingers")
        close = {"joint_target_rad": list(SPEC.home_rad), "gripper_width_m": 0.0}
        one.bench.order(ArmCommand.MOVE_TO, **close)
        one.bench.until(lambda: one.bench.width_m < 0.07, "moving fingers")
        one.cell.send_signal(signal.SIGINT)
        assert one.cell.wait(timeout=15) == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"start_timeout_s": 1.0},
            "no joint states on /joint_states within 1 s; is ros2_control running there?",
        ),
        ({"namespace": ""}, "arm.joint_states: /robot/joint_states is what the arm node itself publishes"),
        (
            {"gripper": {"kind": "hand"}},
            "arm.gripper.kind: must be one of gripper_command, parallel_gripper_command, franka, none",
        ),
    ],
)
def test_an_arm_that_cannot_be_reached_ends_the_node_with_the_reason(
    settings: dict[str, object], words: str, tmp_path: Path
) -> None:
    robot = robot_file(tmp_path, **settings)
    arguments = ["-r", "__ns:=/robot", "-p", "autostart:=true", "-p", f"robot:={robot}"]
    command = [sys.executable, "-m", "rosa_client.nodes.robot.arm_node", "--ros-args", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert words in done.stdout + done.stderr
