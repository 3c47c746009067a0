"""Each node of a robot says which process it is, so that nobody else takes the robot's name (`bringup/names.py`)."""

from __future__ import annotations

import os
import socket
from typing import Any

from std_msgs.msg import String

from rosa_client.nodes.base.qos import LATEST

TOPIC = "identity"


def announce(node: Any) -> None:
    """Publish host and process of `node`, a node of a robot, for as long as it lives."""
    # Kept by the node: a publisher that nobody keeps is destroyed, and what it has said with it.
    node.identity = node.create_publisher(String, TOPIC, LATEST)
    node.identity.publish(
        String(data=f"host {socket.gethostname()}, process {os.getpid()} ({node.get_name()})")
    )
