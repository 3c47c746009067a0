"""Cameras of a simulated cell: draws what the arm node's `world_state` says."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.time import Time
from rosa_interfaces.msg import WorldState

from rosa_client.drivers.cameras import Frame, live
from rosa_contract.config.cameras import CameraSpec
from rosa_sim.cell.layout.hardware import PICK_PLACE, SORT_PARTS, cell
from rosa_sim.cell.render import SceneRenderer


class MujocoCameras:
    """Needs no `source`. A world that is not stepped gives no frames, as a camera without power would."""

    scene = PICK_PLACE

    def __init__(self, cameras: Mapping[str, CameraSpec], node: Node, source: str) -> None:
        self._cameras = cameras
        sizes = {name: (spec.width, spec.height) for name, spec in cameras.items()}
        self._renderer = SceneRenderer(sizes, scene=self.scene)
        self._node = node
        self._newest: WorldState | None = None
        self._count = 0
        newest_only = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        node.create_subscription(WorldState, "world_state", self._on_world, newest_only)

    def frames(self) -> Mapping[str, Frame]:
        if self._newest is None:
            return {}
        world, self._newest = self._newest, None
        pictures = self._renderer.render(world.seed, np.array(world.qpos))
        self._count += 1
        # As old as the world that it shows, however late that came: on a busy machine a message waits.
        taken = Time.from_msg(world.header.stamp)
        age_s = max(0.0, (self._node.get_clock().now() - taken).nanoseconds / 1e9)
        return {name: Frame(live(rgb, self._count), age_s) for name, rgb in pictures.items()}

    def focal_px(self, camera: str) -> float:
        half_angle_rad = math.radians(cell(self.scene).cameras[camera]["fovy_deg"]) / 2
        return self._cameras[camera].height / 2 / math.tan(half_angle_rad)

    def close(self) -> None:
        self._renderer.close()

    def _on_world(self, message: WorldState) -> None:
        self._newest = message


class SortPartsCameras(MujocoCameras):
    """Those of the sorting cell."""

    scene = SORT_PARTS
