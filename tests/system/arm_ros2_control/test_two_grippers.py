"""Two arms behind one controller, a gripper's action server for each: a model moves both, through server and nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
import yaml
from control_msgs.action import GripperCommand
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import Robot
from rosa_contract.config.robot import load_robot
from rosa_sim.controller.following import Point, TrajectoryFollower
from rosa_sim.ports import free_port
from tests.system.arm_ros2_control.gripper_server import GripperServer
from tests.system.arm_ros2_control.in_turn import WRISTS_RAD

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
PAIR = ROOT / "configs" / "robots" / "bimanual_ur5e.yaml"
SPEC = load_robot(PAIR)
CLOSED, OPEN = 0.8, 0.0  # of the knuckles, rad: as the robot file says
PATIENT_MS = 20_000.0
GIVEN_UP_S = 120.0
FACTORY = """
server_cluster: {{num_servers: 1, gpu_type: cpu}}
robot_fleet: [{{task: hand_over, num_robots: 1}}]
hand_over:
  pipeline: {{action_period_ms: 400}}
  components:
    system1: {{model: pair, slo_ms: {patient_ms}, fallback: stop_and_resend}}
    monitor: {{model: pair, freq_hz: 2, slo_ms: {patient_ms}, fallback: stop_and_resend}}
models:
  pair:
    backend: tests.system.arm_ros2_control.in_turn:InTurn
    adapter:
      robot: {robot}
      actions:
        columns: {{action: [l0, l1, l2, l3, l4, l5, lg, r0, r1, r2, r3, r4, r5, rg]}}
        parts:
          - {{to: joints, take: [l0, l1, l2, l3, l4, l5], joints: [0, 1, 2, 3, 4, 5]}}
          - {{to: joints, take: [r0, r1, r2, r3, r4, r5], joints: [6, 7, 8, 9, 10, 11]}}
          - {{to: gripper, take: [lg], grippers: [0], gripper: open_fraction}}
          - {{to: gripper, take: [rg], grippers: [1], gripper: open_fraction}}
        step_s: 0.05
gateway: {{bind: "{endpoint}", metrics_port: 0}}
"""


class JointController:
    """A joint_trajectory_controller over all twelve joints, and its joint states. The arms are where they should be."""

    def __init__(self) -> None:
        self._follower = TrajectoryFollower(SPEC.joints, from_desired=True)
        self._follower.hold(np.array(SPEC.home_rad))
        self.refused: list[str] = []
        self._context = rclpy.Context()
        rclpy.init(args=[], context=self._context)
        self._node = Node("controllers", context=self._context)
        self._states = self._node.create_publisher(JointState, "/joint_states", 10)
        topic = "/joint_trajectory_controller/joint_trajectory"
        self._node.create_subscription(JointTrajectory, topic, self._on_trajectory, 10)
        self._node.create_timer(0.01, self._publish)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._executor.spin, daemon=True)
        self._thread.start()

    @property
    def q_rad(self) -> np.ndarray:
        return self._follower.desired(time.monotonic())

    def close(self) -> None:
        self._executor.shutdown()
        self._thread.join(timeout=5)
        self._node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def _on_trajectory(self, message: JointTrajectory) -> None:
        points = [
            Point(
                np.array(point.positions),
                np.array(point.velocities) if point.velocities else None,
                point.time_from_start.sec + point.time_from_start.nanosec / 1e9,
            )
            for point in message.points
        ]
        if why := self._follower.refusal(list(message.joint_names), points):
            self.refused.append(why)
            return
        now_s = time.monotonic()
        measured = Point(self._follower.desired(now_s), None, 0.0)
        self._follower.follow(now_s, list(message.joint_names), points, measured)

    def _publish(self) -> None:
        message = JointState(name=list(SPEC.joints), position=self.q_rad.tolist())
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._states.publish(message)


@pytest.fixture
def hardware() -> Iterator[tuple[JointController, GripperServer, GripperServer]]:
    """What a bring-up of the shipped robot file offers: its controller, and an action server for each gripper."""
    arms = JointController()
    hands = [
        GripperServer(
            f"/{side}_gripper/gripper_cmd", "/joint_states", f"{side}_knuckle_joint", GripperCommand
        )
        for side in ("left", "right")
    ]
    yield arms, hands[0], hands[1]
    for one in (*hands, arms):
        one.close()


def written(folder: Path, endpoint: str) -> tuple[Path, Path]:
    """Factory and robot file: the shipped pair with one small camera, and patient on a busy machine."""
    robot: dict[str, Any] = yaml.safe_load(PAIR.read_text())
    robot |= {
        "camera_driver": "tests.system.doctor.still:Living",
        "cameras": {"front": {"width": 96, "height": 96, "encoding": "jpeg", "rate_hz": 10}},
        "max_sensor_age_ms": PATIENT_MS,
    }
    robot["arm"] |= {"controller_manager": "", "joint_state_timeout_s": PATIENT_MS / 1000}
    for gripper in robot["arm"]["grippers"].values():
        gripper["timeout_s"] = PATIENT_MS / 1000
    factory, body = folder / "factory.yaml", folder / "robot.yaml"
    body.write_text(yaml.safe_dump(robot))
    factory.write_text(FACTORY.format(endpoint=endpoint, patient_ms=PATIENT_MS, robot=body))
    return factory, body


def test_both_grippers_move_each_by_its_own_action_server(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hardware: tuple[JointController, GripperServer, GripperServer],
) -> None:
    arms, left, right = hardware
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    factory, body = written(tmp_path, endpoint)
    one = Robot(config=str(factory), robot=str(body), gateway=endpoint, namespace="pair")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    command = [sys.executable, "-m", "rosa_server.cli", "run", "--robot", "pair", "--json"]
    with Bringup([one], server=str(factory), logs=tmp_path / "logs") as bringup:
        for node in ("arm_node", "camera_node", "runtime_node"):
            assert bringup.supervisor.is_ready(f"pair/{node}"), "else a task that comes at once finds no arm"
        ran = subprocess.run(
            [*command, "--timeout", f"{GIVEN_UP_S:g}"],
            cwd=ROOT,
            env={**os.environ},
            capture_output=True,
            text=True,
            timeout=2 * GIVEN_UP_S,
        )
        turned = arms.q_rad - SPEC.home_rad
    log = "".join(path.read_text() for path in (tmp_path / "logs").glob("*.log"))[-3000:]
    result = json.loads(ran.stdout)
    assert result["outcome"] == "done", (result, ran.stderr, log)
    assert [one.position for one in left.goals] == pytest.approx([CLOSED, OPEN]), log
    assert [one.position for one in right.goals] == pytest.approx([CLOSED]), (
        "the left one's goals are not its own"
    )
    assert not arms.refused
    for joint, to_rad in WRISTS_RAD.items():
        assert 0.05 < turned[joint] / to_rad < 1.01, "each arm has turned its own wrist its own way"
    others = [number for number in range(12) if number not in WRISTS_RAD]
    assert turned[others] == pytest.approx(0.0, abs=1e-3)
