"""A gripper's controller as a node of its own, in a ROS context of its own: it may come late, and go."""

from __future__ import annotations

import threading
from typing import Any

import rclpy
from control_msgs.action import GripperCommand, ParallelGripperCommand
from rclpy.action import ActionServer
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import JointState

ACTION, STATES, JOINT = "/hand/gripper_cmd", "/hand/joint_states", "knuckle"


class GripperServer:
    """Fingers that are where they are told to be at once, and tell so on a topic, as a rule their own."""

    def __init__(
        self,
        action: str = ACTION,
        states: str = STATES,
        joint: str = JOINT,
        kind: Any = ParallelGripperCommand,
    ) -> None:
        """`kind`: the action's type."""
        self.goals: list[Any] = []  # a JointState each, or a control_msgs/GripperCommand
        self._joint, self._kind, self._position = joint, kind, 0.0
        self._context = rclpy.Context()
        rclpy.init(args=[], context=self._context)
        self._node = Node(action.strip("/").partition("/")[0], context=self._context)
        self._states = self._node.create_publisher(JointState, states, 10)
        self._node.create_timer(0.05, self._publish)
        self._server = ActionServer(self._node, kind, action, self._move)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._executor.spin, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._executor.shutdown()
        self._thread.join(timeout=5)
        self._server.destroy()
        self._node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def _publish(self) -> None:
        self._states.publish(JointState(name=[self._joint], position=[self._position]))

    def _move(self, goal: Any) -> Any:
        command = goal.request.command
        self.goals.append(command)
        self._position = command.position if self._kind is GripperCommand else command.position[0]
        goal.succeed()
        return self._kind.Result(reached_goal=True)
