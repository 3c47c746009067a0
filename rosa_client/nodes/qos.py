"""QoS profiles on which publishers and subscribers of a robot's topics have to agree."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, QoSProfile

# A subscriber that starts late still gets the last state, and the last decisions of people.
LATEST = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
AUDITS = QoSProfile(depth=50, durability=DurabilityPolicy.TRANSIENT_LOCAL)
