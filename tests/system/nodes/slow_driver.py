"""Cameras whose device never answers."""

from __future__ import annotations

import time
from typing import Any


class SlowCameras:
    """Connects for longer than anybody waits."""

    def __init__(self, cameras: Any, node: Any, source: str) -> None:
        node.get_logger().info("connecting")
        time.sleep(600)
