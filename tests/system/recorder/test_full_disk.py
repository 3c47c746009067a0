"""A recorder whose disk is full ends with one clear line, and what came before is in the bag."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import rclpy
from rclpy.node import Node
from std_msgs.msg import String

from rosa_client.recording.bag import read

ROOT = Path(__file__).parents[3]
MAX_BYTES = 60_000
PATIENCE_S = 40.0


def test_a_recorder_that_cannot_write_any_more_says_so_and_ends(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    command = [
        sys.executable,
        "-m",
        "rosa_client.nodes.robot.recorder_node",
        "--ros-args",
        "-r",
        "__ns:=/full",
    ]
    recorder = subprocess.Popen(
        [*command, "-p", f"path:={path}"],
        cwd=ROOT,
        env={**os.environ, "ROS_LOG_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_BYTES, MAX_BYTES)),
    )
    rclpy.init()
    node = Node("talker", namespace="/full")
    publisher = node.create_publisher(String, "x", 10)
    try:
        end_s = time.monotonic() + PATIENCE_S
        while recorder.poll() is None and time.monotonic() < end_s:
            publisher.publish(String(data=os.urandom(1000).hex()))
            time.sleep(0.01)
        said, _ = recorder.communicate(timeout=5)
    finally:
        recorder.kill()
        node.destroy_node()
        rclpy.try_shutdown()
    assert recorder.returncode == 1, said
    assert f"recorder_node]: recording stopped: {path}: File too large; what came before is in it" in said
    assert "Traceback" not in said and "Exception" not in said, said
    assert any(entry.topic == "/full/x" for entry in read(path))
