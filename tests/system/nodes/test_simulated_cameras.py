"""The cameras of a simulated cell: a picture is as old as the world that it shows."""

from __future__ import annotations

import time

import rclpy
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rosa_interfaces.msg import WorldState

from rosa_client.nodes.base.environment import prepare_environment
from rosa_contract.config.robot import load_robot
from rosa_sim.cell.world import World
from rosa_sim.drivers.cameras.mujoco import MujocoCameras
from tests.system.nodes.test_sensors import PATIENCE_S, ROBOT

LATE_S = 0.7


def test_a_world_that_came_late_makes_an_old_picture() -> None:
    prepare_environment()
    rclpy.init()
    node = Node("bench", namespace="bench")
    cameras = MujocoCameras(load_robot(ROBOT).cameras, node, "")
    try:
        worlds = node.create_publisher(WorldState, "world_state", qos_profile_sensor_data)
        frames, end_s = cameras.frames(), time.monotonic() + PATIENCE_S
        while not frames:
            assert time.monotonic() < end_s, "no picture came"
            message = WorldState(seed=3, qpos=World(3).qpos.tolist())
            message.header.stamp = (node.get_clock().now() - Duration(seconds=LATE_S)).to_msg()
            worlds.publish(message)
            rclpy.spin_once(node, timeout_sec=0.1)
            frames = cameras.frames()
        assert set(frames) == set(load_robot(ROBOT).cameras)
        assert all(frame.age_s >= LATE_S for frame in frames.values())
    finally:
        cameras.close()
        node.destroy_node()
        rclpy.shutdown()
