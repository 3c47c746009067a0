"""A camera driver that draws the simulated cell with a board in it, as its arm's joint states say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState

from rosa_client.drivers.cameras import Frame
from rosa_contract.config.robot import CameraSpec
from tests.unit.client.calibration import scenes
from tests.unit.client.calibration.rendered import Mount, Stage


class BoardCamera:
    """One camera, `wrist`, with the board on the table. `ROSA_TEST_FOLDER` is where its texture goes."""

    def __init__(self, cameras: Mapping[str, CameraSpec], node: Any, source: str) -> None:
        self._stage: Stage | None = None
        self._q: np.ndarray | None = None
        node.create_subscription(JointState, "joint_states", self._on_joints, qos_profile_sensor_data)

    def frames(self) -> Mapping[str, Frame]:
        if self._stage is None:  # here, as OpenGL belongs to the thread that begins with it
            lies = scenes.on_table(scenes.SMALL)
            folder = Path(os.environ["ROSA_TEST_FOLDER"])
            self._stage = Stage(folder, "wrist", scenes.SMALL, Mount("world", lies))
        return {"wrist": Frame(self._stage.take(self._q))} if self._q is not None else {}

    def focal_px(self, camera: str) -> float:
        return 0.0

    def close(self) -> None:
        if self._stage is not None:
            self._stage.close()

    def _on_joints(self, message: JointState) -> None:
        self._q = np.array(message.position[:7])
