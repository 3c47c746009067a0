"""Ask a ROSA server for actions from plain Python, without ROS and without a robot."""

import sys

import numpy as np

from rosa_client import Robot

server = sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:5570"
with Robot(server, task="pick") as robot:
    for _ in range(5):
        front = np.zeros((96, 96, 3), np.uint8)  # your camera: (height, width, 3) RGB
        joints = np.zeros(7, np.float32)  # your robot: rad
        chunk = robot.infer({"front": front, "joint_position": joints}, prompt="pick the cube")
        print(f"actions {chunk.actions.shape} in {chunk.round_trip_ms:.1f} ms")
