"""The pictures of a vendor's camera are in the bag, although their topic is not the robot's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import rclpy
from mcap.reader import make_reader
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage

from rosa_client.nodes.base.environment import prepare_environment

ROOT = Path(__file__).parents[3]
TOPIC, OTHER = "/camera/color/image_raw/compressed", "/camera/depth/image_raw/compressed"
PATIENCE_S = 20.0


def test_topics_that_are_named_are_recorded_and_their_neighbours_are_not(tmp_path: Path) -> None:
    prepare_environment()
    bag = tmp_path / "run.mcap"
    command = [
        sys.executable,
        "-m",
        "rosa_client.nodes.robot.recorder_node",
        "--ros-args",
        "-r",
        "__ns:=/taped",
    ]
    command += ["-p", f"path:={bag}", "-p", f"also:={TOPIC}"]
    rclpy.init()
    node = Node("vendor")
    recorder = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        wanted, other = (node.create_publisher(CompressedImage, topic, 5) for topic in (TOPIC, OTHER))
        end_s = time.monotonic() + PATIENCE_S
        while not wanted.get_subscription_count():
            assert time.monotonic() < end_s, "nobody records it"
            rclpy.spin_once(node, timeout_sec=0.05)
        for _ in range(10):
            wanted.publish(CompressedImage(format="jpeg", data=b"a picture"))
            other.publish(CompressedImage(format="jpeg", data=b"another"))
            rclpy.spin_once(node, timeout_sec=0.05)
    finally:
        recorder.send_signal(signal.SIGINT)
        try:
            recorder.wait(timeout=15)
        finally:
            recorder.kill()
            node.destroy_node()
            rclpy.try_shutdown()
    with bag.open("rb") as file:
        found = {channel.topic for _, channel, _ in make_reader(file).iter_messages()}
    assert TOPIC in found
    assert OTHER not in found
