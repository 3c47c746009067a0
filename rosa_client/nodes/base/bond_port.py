"""The ROS side of a managed node's bond: the topic `bond` in the node's namespace, as nav2's own nodes have it.

nav2's lifecycle manager runs in the robot's namespace with `node_names: [arm_node, camera_node, runtime_node]`.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Header

from rosa_client.loops.bond import HEARTBEAT_TIMEOUT_S, Bond, BondState
from rosa_client.nodes.base.parameters import Parameter, declare
from rosa_client.ros.clock import steady_timer

try:
    from bond.msg import Status
except ImportError:  # a ROS 2 without nav2 may not have it
    Status = None

PERIOD = "bond_heartbeat_period"  # nav2's name of it
BOND_PARAMETERS = {
    PERIOD: Parameter(0.25, "s between heartbeats to nav2's lifecycle manager; 0: none", 0.0, 10.0)
}
TOPIC = "bond"


class BondPort:
    """Forms a bond when the node becomes active, and ends it when it no longer is."""

    def __init__(self, node: Node) -> None:
        declare(node, BOND_PARAMETERS)
        self._node = node
        self._period_s = float(node.get_parameter(PERIOD).value)
        self._bond: Bond | None = None
        self._instance = ""
        self._publisher: Any = None
        self._subscription: Any = None
        self._timer: Any = None

    def form(self) -> None:
        """Listen for whoever manages this node; after a while without a word, no more."""
        self._forget()
        if self._period_s <= 0:
            return
        if Status is None:
            self._node.get_logger().info(
                "no package `bond` (apt install ros-$ROS_DISTRO-bond): nav2's lifecycle manager needs bond_timeout: 0.0"
            )
            return
        self._instance = str(uuid.uuid4())
        self._bond = Bond(time.monotonic(), self._node.get_name(), self._instance, self._period_s)
        self._publisher = self._node.create_publisher(Status, TOPIC, QoSProfile(depth=5))
        self._subscription = self._node.create_subscription(
            Status, TOPIC, self._on_status, QoSProfile(depth=100)
        )
        self._beat_in_time()

    def end(self) -> None:
        """Say that this node no longer is active."""
        if self._bond is None:
            return
        self._say(self._bond.end(time.monotonic()))
        if self._bond.state is BondState.DEAD:
            self._forget()
        else:
            self._beat_in_time()

    def _on_status(self, message: Any) -> None:
        if self._bond is None:
            return
        before = self._bond.state
        self._say(self._bond.hear(message.id, message.instance_id, message.active))
        if before is BondState.WAITING and self._bond.state is BondState.ALIVE:
            self._beat_in_time()
            self._node.get_logger().info("bonded with a lifecycle manager")
        if before is BondState.ALIVE and self._bond.state is BondState.DEAD:
            self._node.get_logger().warning(
                "the lifecycle manager ended the bond; this node goes on as it is"
            )

    def _beat(self) -> None:
        if self._bond is None:
            return
        self._say(self._bond.beat(time.monotonic()))
        if self._bond.state is BondState.DEAD:
            self._forget()

    def _say(self, active: bool | None) -> None:
        if active is None:
            return
        self._publisher.publish(
            Status(
                header=Header(stamp=self._node.get_clock().now().to_msg()),
                id=self._node.get_name(),
                instance_id=self._instance,
                active=active,
                heartbeat_timeout=HEARTBEAT_TIMEOUT_S,
                heartbeat_period=self._period_s,
            )
        )

    def _beat_in_time(self) -> None:
        """After the bond has entered another state."""
        assert self._bond is not None
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
        self._timer = steady_timer(self._node, self._bond.every_s, self._beat)

    def _forget(self) -> None:
        if self._bond is None:
            return
        self._node.destroy_timer(self._timer)
        self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._publisher)
        self._bond = self._publisher = self._subscription = self._timer = None
