"""The transforms of a robot that never change, on `/tf_static`: its base in the world, its cameras on their links.

What moves comes from robot_state_publisher. A part of the runtime node, as every robot has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from geometry_msgs.msg import Quaternion, TransformStamped, Vector3
from rclpy.node import Node

from rosa_client.frames import StaticTransform
from rosa_client.nodes.base.qos import LATEST

TOPIC = "/tf_static"


def publish_static(node: Node, transforms: Sequence[StaticTransform]) -> Any:
    """A publisher that has sent `transforms`, also to whoever comes later; None, and a warning, without tf2_msgs."""
    try:
        from tf2_msgs.msg import TFMessage
    except ImportError:
        node.get_logger().warning(
            "tf2_msgs is not installed, so the cameras are not in TF (apt install ros-$ROS_DISTRO-tf2-msgs)"
        )
        return None
    publisher = node.create_publisher(TFMessage, TOPIC, LATEST)
    stamp = node.get_clock().now().to_msg()
    publisher.publish(TFMessage(transforms=[stamped(one, stamp) for one in transforms]))
    return publisher


def stamped(transform: StaticTransform, stamp: Any) -> TransformStamped:
    """One transform as a message."""
    message = TransformStamped(child_frame_id=transform.child)
    message.header.frame_id, message.header.stamp = transform.parent, stamp
    x, y, z = transform.xyz_m
    message.transform.translation = Vector3(x=x, y=y, z=z)
    x, y, z, w = transform.quaternion_xyzw
    message.transform.rotation = Quaternion(x=x, y=y, z=z, w=w)
    return message
