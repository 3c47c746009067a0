"""The QoS that a topic's publishers offer, as rosbag2 stores it with a topic, so that `ros2 bag play` offers the same.

The policies are numbers of `rmw_qos_profile_t`, as rosbag2 wrote them up to Iron: every version reads these, while
older ones do not read the words that newer ones write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from rclpy.duration import Duration
from rclpy.qos import QoSProfile


def offered_qos(profiles: Sequence[QoSProfile]) -> str:
    """The text of `offered_qos_profiles` in a channel's metadata; one profile for each different offer."""
    entries: list[dict[str, Any]] = []
    for profile in profiles:
        entry = _entry(profile)
        if entry not in entries:
            entries.append(entry)
    return yaml.safe_dump(entries, sort_keys=False) if entries else ""


def _entry(profile: QoSProfile) -> dict[str, Any]:
    return {
        "history": int(profile.history),
        "depth": int(profile.depth),
        "reliability": int(profile.reliability),
        "durability": int(profile.durability),
        "deadline": _time(profile.deadline),
        "lifespan": _time(profile.lifespan),
        "liveliness": int(profile.liveliness),
        "liveliness_lease_duration": _time(profile.liveliness_lease_duration),
        "avoid_ros_namespace_conventions": bool(profile.avoid_ros_namespace_conventions),
    }


def _time(duration: Duration) -> dict[str, int]:
    sec, nsec = divmod(duration.nanoseconds, 1_000_000_000)
    return {"sec": sec, "nsec": nsec}
