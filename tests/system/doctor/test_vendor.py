"""`rosa doctor` beside a camera vendor's drivers and a gripper's controller, each wrong in one way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
import yaml
from control_msgs.action import GripperCommand
from rclpy.action import ActionServer
from rclpy.duration import Duration
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image

from rosa_client.nodes.base.environment import prepare_environment
from rosa_contract.wire.images import encode_image

ROOT = Path(__file__).parents[3]
PATIENCE_S = 90.0
RATE_HZ = 10
ASKED_HZ = 4  # by the robot file: fewer than come, so that those of a busy machine are not too slow
CAMERA = {"width": 96, "height": 96, "rate_hz": ASKED_HZ, "driver": "external"}
CAMERAS = {
    name: {**CAMERA, "topic": f"/vendor/{name}/image_raw/compressed"}
    for name in ("good", "large", "behind", "ahead", "raw", "weak")
}
CAMERAS["weak"]["reliability"] = "reliable"
STAMPED_S = {"behind": -7.1, "ahead": 4.9}


class Vendor(Node):
    """Pictures with noise on the vendor's topics, and a gripper of the older kind."""

    def __init__(self) -> None:
        super().__init__("vendor")
        self._random = np.random.default_rng(1)
        self._pictures: dict[str, Any] = {}
        for name in CAMERAS:
            weak = name == "weak"
            reliability = ReliabilityPolicy.BEST_EFFORT if weak else ReliabilityPolicy.RELIABLE
            kind = Image if name == "raw" else CompressedImage
            qos = QoSProfile(depth=5, reliability=reliability)
            quiet = PublisherEventCallbacks(incompatible_qos=lambda _: None)
            topic = f"/vendor/{name}/image_raw/compressed"
            self._pictures[name] = self.create_publisher(kind, topic, qos, event_callbacks=quiet)
        self.create_timer(1 / RATE_HZ, self._publish)
        ActionServer(self, GripperCommand, "/hand/gripper_cmd", lambda goal: GripperCommand.Result())

    def _publish(self) -> None:
        for name, publisher in self._pictures.items():
            height, width = (72, 128) if name == "large" else (96, 96)
            rgb = self._random.integers(0, 255, (height, width, 3), np.uint8)
            stamp = self.get_clock().now() + Duration(seconds=STAMPED_S.get(name, 0.0))
            if name == "raw":
                picture = Image(height=height, width=width, encoding="rgb8", step=width * 3)
                picture.data = rgb.tobytes()
            else:
                data = bytes(encode_image(rgb).data)
                picture = CompressedImage(format="rgb8; jpeg compressed bgr8", data=data)
            picture.header.stamp = stamp.to_msg()
            publisher.publish(picture)


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the doctor says about each."""
    robot = tmp_path_factory.mktemp("vendor") / "robot.yaml"
    gripper = {"kind": "parallel_gripper_command", "action": "hand/gripper_cmd"}
    cameras = {"front": None, "wrist": None, **CAMERAS}
    spec = {"extends": "rosa:panda_ros2_control.yaml", "cameras": cameras, "arm": {"gripper": gripper}}
    robot.write_text(yaml.safe_dump(spec))
    prepare_environment()
    rclpy.init()
    node, executor = Vendor(), SingleThreadedExecutor()
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    words = [str(robot), "--name", "vendored", "--json", "--seconds", "3"]
    command = [sys.executable, "-m", "rosa_server.cli", "doctor", *words]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=PATIENCE_S
        )
    finally:
        executor.shutdown()
        thread.join(timeout=5)
        node.destroy_node()
        rclpy.try_shutdown()
    assert done.returncode == 1, done.stderr
    return {one["check"]: one for one in json.loads(done.stdout)["checks"]}


@pytest.mark.parametrize(
    ("check", "level", "cause", "says"),
    [
        ("camera.good", "ok", "fine", ""),
        ("camera.large", "fail", "wrong_size", "pictures are 128x72 px, the robot file says 96x96"),
        ("camera.behind", "fail", "clock_difference", "stamped 7."),
        ("camera.ahead", "warn", "clock_difference", "stamped 4."),
        (
            "camera.raw",
            "fail",
            "unmatched",
            "/vendor/raw/image_raw/compressed are sensor_msgs/Image, expected sensor_msgs/CompressedImage",
        ),
        ("camera.weak", "fail", "unmatched", "published best effort, but the robot file asks for"),
        (
            "gripper",
            "fail",
            "wrong_action_type",
            "/hand/gripper_cmd is a control_msgs/GripperCommand, expected a control_msgs/ParallelGripperCommand;"
            " set arm.gripper.kind: gripper_command",
        ),
    ],
)
def test_each_is_named_with_its_cause_and_its_figures(
    checks: dict[str, dict[str, Any]], check: str, level: str, cause: str, says: str
) -> None:
    found = checks[check]
    if found["cause"] == "slow":
        pytest.fail(f"the machine is too busy for {ASKED_HZ} pictures a second: {found}")
    assert (found["level"], found["cause"]) == (level, cause), found
    assert says in found["found"]
