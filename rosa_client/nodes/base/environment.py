"""What a process sets before it uses ROS: the DDS profile for large messages."""

from __future__ import annotations

import os

from rosa_contract.shipped import shipped

DDS_PROFILE = shipped("configs") / "dds" / "fastdds.xml"


def prepare_environment() -> None:
    """Make this process and its children use the DDS profile for large messages. Call it before `rclpy.init`."""
    if DDS_PROFILE.is_file():
        os.environ.setdefault("FASTDDS_DEFAULT_PROFILES_FILE", str(DDS_PROFILE))
