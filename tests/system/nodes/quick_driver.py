"""Cameras that have a new picture whenever they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rosa_client.drivers.cameras import Frame
from rosa_contract.config.cameras import CameraSpec


class QuickCameras:
    """Black pictures."""

    def __init__(self, cameras: Mapping[str, CameraSpec], node: Any, source: str) -> None:
        self._frames = {
            name: Frame(np.zeros((camera.height, camera.width, 3), np.uint8))
            for name, camera in cameras.items()
        }

    def frames(self) -> Mapping[str, Frame]:
        return self._frames

    def focal_px(self, camera: str) -> float:
        return 0.0

    def close(self) -> None:
        pass


class AgedCameras(QuickCameras):
    """Pictures that were taken a moment ago, as those of a device."""

    def frames(self) -> Mapping[str, Frame]:
        return {name: replace(frame, age_s=0.02) for name, frame in self._frames.items()}
