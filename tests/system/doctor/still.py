"""Camera drivers for a robot under test: one that lives, and one whose `wrist` is frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np

from rosa_client.drivers.cameras import Frame, live
from rosa_contract.config.robot import CameraSpec


class Living:
    """A picture with edges, and noise that changes."""

    frozen: tuple[str, ...] = ()

    def __init__(self, cameras: Mapping[str, CameraSpec], node: Any, source: str) -> None:
        self._pictures = {}
        for name, spec in cameras.items():
            blocks = np.random.default_rng(1).integers(40, 220, (8, 8, 3), np.uint8)
            size = (spec.width, spec.height)
            self._pictures[name] = cv2.resize(blocks, size, interpolation=cv2.INTER_NEAREST)
        self._count = 0

    def frames(self) -> Mapping[str, Frame]:
        self._count += 1
        return {
            name: Frame(live(picture, 0 if name in self.frozen else self._count))
            for name, picture in self._pictures.items()
        }

    def focal_px(self, camera: str) -> float:
        return 0.0

    def close(self) -> None:
        pass


class FrozenWrist(Living):
    frozen = ("wrist",)
