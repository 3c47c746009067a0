"""Stands in for the runtime: a process of its own that plays one long chunk and says that it is alive, until killed."""

from __future__ import annotations

import sys
import time

import numpy as np
import rclpy
from rosa_interfaces.msg import ActionChunk, ArmCommand

from rosa_contract.config.robot import load_robot

ALIVE_EVERY_S = 0.025


def main() -> None:
    robot = load_robot(sys.argv[1])
    rclpy.init()
    node = rclpy.create_node("sender", namespace="robot")
    commands = node.create_publisher(ArmCommand, "arm_command", 50)
    while commands.get_subscription_count() == 0:
        rclpy.spin_once(node, timeout_sec=0.05)
    epoch = time.time_ns()
    names = [*robot.joints, "gripper"]
    rows = np.tile([*robot.home_rad, 0.04], (200, 1))  # ten seconds
    rows[:, 0] += np.linspace(0.0, 0.8, 200)
    chunk = ActionChunk(step_s=0.05, horizon=200, names=names, data=rows.ravel().tolist())
    commands.publish(ArmCommand(epoch=epoch, seq=1, kind=ArmCommand.PLAY, chunk=chunk))
    while True:
        commands.publish(ArmCommand(epoch=epoch, seq=1, kind=ArmCommand.ALIVE))
        time.sleep(ALIVE_EVERY_S)


if __name__ == "__main__":
    main()
