"""The QoS in a bag is in the form that every version of rosbag2 reads."""

from __future__ import annotations

import yaml
from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from rosa_client.recording.offered import offered_qos

FOREVER = {"sec": 9223372036, "nsec": 854775807}  # RMW_DURATION_INFINITE


def test_a_profile_has_the_keys_and_types_that_rosbag2_decodes() -> None:
    forever = Duration(nanoseconds=2**63 - 1)
    latched = QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=7,
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
        deadline=forever,
        lifespan=forever,
    )
    assert yaml.safe_load(offered_qos([latched])) == [
        {
            "history": 1,
            "depth": 7,
            "reliability": 1,
            "durability": 1,
            "deadline": FOREVER,
            "lifespan": FOREVER,
            "liveliness": 0,
            "liveliness_lease_duration": {"sec": 0, "nsec": 0},
            "avoid_ros_namespace_conventions": False,
        }
    ]


def test_different_offers_are_all_named_and_equal_ones_once() -> None:
    weak = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    found = yaml.safe_load(offered_qos([QoSProfile(depth=1), weak, QoSProfile(depth=1)]))
    assert [one["reliability"] for one in found] == [1, 2]
    assert offered_qos([]) == ""
