"""QoS profiles on which publishers and subscribers of a robot's topics have to agree."""

from __future__ import annotations

from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from rosa_contract.config.cameras import BEST_EFFORT, RELIABLE, CameraSpec

# A subscriber that starts late still gets the last state, and the last decisions of people.
LATEST = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
PROMPTS = QoSProfile(depth=20, durability=DurabilityPolicy.TRANSIENT_LOCAL)  # of every component
AUDITS = QoSProfile(depth=50, durability=DurabilityPolicy.TRANSIENT_LOCAL)
PICTURES_DEPTH = 5  # as that of sensor data in ROS 2


def offered(camera: CameraSpec) -> QoSProfile:
    """For whoever publishes the pictures of `camera`: reliable unless the robot file says otherwise (REP 2003)."""
    weak = camera.reliability == BEST_EFFORT
    policy = ReliabilityPolicy.BEST_EFFORT if weak else ReliabilityPolicy.RELIABLE
    return QoSProfile(depth=PICTURES_DEPTH, reliability=policy)


def asked(camera: CameraSpec) -> QoSProfile:
    """For whoever subscribes: best effort, which matches every publisher, unless the robot file says otherwise."""
    strong = camera.reliability == RELIABLE
    policy = ReliabilityPolicy.RELIABLE if strong else ReliabilityPolicy.BEST_EFFORT
    return QoSProfile(depth=PICTURES_DEPTH, reliability=policy)


def offers(node: Any, topic: str) -> list[tuple[str, bool]]:
    """(type, whether reliable) of each publisher of `topic`, as the graph knows them."""
    return [
        (one.topic_type.replace("/msg/", "/"), one.qos_profile.reliability == ReliabilityPolicy.RELIABLE)
        for one in node.get_publishers_info_by_topic(topic)
    ]
