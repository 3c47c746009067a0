"""How the topics of a robot are delivered, where who publishes and who listens have to agree."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, QoSProfile

# Whoever comes late still gets the last state, and the last decisions of people.
LATEST = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
AUDITS = QoSProfile(depth=50, durability=DurabilityPolicy.TRANSIENT_LOCAL)
