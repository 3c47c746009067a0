"""Each setpoint that was sent to the arm, for whoever records it: the topic `arm_setpoints`.

A message holds those of a tenth of a second, since one message per setpoint would cost the control loop more than the
setpoint itself. Nothing is made while nobody listens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from builtin_interfaces.msg import Duration as DurationMessage
from rclpy.node import Node
from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rosa_client.ros.clock import stamp_before

TOPIC = "arm_setpoints"
EVERY_S = 0.1


class SetpointLog:
    """Called from the control thread only."""

    def __init__(self, node: Node, names: Sequence[str]) -> None:
        """`names`: the joints, then the width of each gripper."""
        self._clock = node.get_clock()
        self._names = list(names)
        self._publisher = node.create_publisher(JointTrajectory, TOPIC, QoSProfile(depth=50))
        self._sent: list[tuple[float, npt.NDArray[Any], npt.NDArray[Any]]] = []
        self._due_s = 0.0
        self._heard = False

    def sent(self, now_s: float, q_rad: npt.NDArray[Any], gripper_m: npt.NDArray[Any]) -> None:
        """A setpoint that the driver has just sent."""
        if self._heard:
            self._sent.append((now_s, q_rad, gripper_m))

    def publish(self, now_s: float, last: bool = False) -> None:
        """Called every control period, also of one in which nothing was sent; `last`: none follows."""
        if now_s < self._due_s and not last:
            return
        self._due_s = now_s + EVERY_S
        if self._sent:
            message = trajectory(self._names, self._sent)
            message.header.stamp = stamp_before(self._clock, now_s - self._sent[0][0])
            self._publisher.publish(message)
            self._sent = []
        self._heard = self._publisher.get_subscription_count() > 0


def trajectory(
    names: Sequence[str], sent: Sequence[tuple[float, npt.NDArray[Any], npt.NDArray[Any]]]
) -> JointTrajectory:
    """Setpoints as (time s, joints rad, gripper widths m); each with its time after the first."""
    first_s = sent[0][0]
    message = JointTrajectory(joint_names=list(names))
    for moment_s, q_rad, gripper_m in sent:
        point = JointTrajectoryPoint(positions=[*q_rad.tolist(), *gripper_m.tolist()])
        sec, nsec = divmod(round((moment_s - first_s) * 1e9), 1_000_000_000)
        point.time_from_start = DurationMessage(sec=sec, nanosec=nsec)
        message.points.append(point)
    return message
