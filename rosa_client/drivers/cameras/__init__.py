"""Cameras. A driver gives the newest frame of each of a robot's cameras; it neither encodes nor paces them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rosa_client.drivers import load
from rosa_contract.config.cameras import EXTERNAL, CameraSpec
from rosa_contract.config.robot import RobotSpec

CAMERA_DRIVERS = {
    "mujoco": "rosa_sim.drivers.cameras.mujoco:MujocoCameras",
    "mujoco_sort_parts": "rosa_sim.drivers.cameras.mujoco:SortPartsCameras",
    "replay": "rosa_client.drivers.cameras.replay:ReplayCameras",
    "v4l2": "rosa_client.drivers.cameras.v4l2:V4l2Cameras",
}


NOISE = 16  # of 256; less would not outlast the rounding of JPEG


@dataclass(frozen=True)
class Frame:
    """One picture."""

    rgb: npt.NDArray[np.uint8]  # (height, width, 3)
    age_s: float = 0.0  # time since it was taken, s


class CameraDriver(Protocol):
    """The cameras of one robot. Called from one thread only."""

    def frames(self) -> Mapping[str, Frame]:
        """Return the latest frame of every camera that has a new one since the last call."""

    def focal_px(self, camera: str) -> float:
        """Focal length of the ideal pinhole model, px; 0 if the camera is not calibrated."""

    def close(self) -> None:
        """Release the devices."""


def create_cameras(name: str, cameras: Mapping[str, CameraSpec], node: Any, source: str) -> CameraDriver:
    """The camera driver called `name`; `source` says where the pictures come from (each driver says how).

    Raises `DriverError` naming the package, device or file that is missing.
    """
    driver: CameraDriver = load("camera", name, CAMERA_DRIVERS)(cameras, node, source)
    return driver


def by_driver(spec: RobotSpec, instead: str = "") -> dict[str, dict[str, CameraSpec]]:
    """Driver -> its cameras, without those that another node publishes. `instead`: one driver for every camera."""
    found: dict[str, dict[str, CameraSpec]] = {}
    for name, camera in spec.cameras.items():
        driver = instead or spec.camera_driver_of(name)
        if driver != EXTERNAL:
            found.setdefault(driver, {})[name] = camera
    return found


class AllCameras:
    """The cameras of one robot, whatever drivers they have, as one driver."""

    def __init__(self, spec: RobotSpec, node: Any, instead: str = "", source: str = "") -> None:
        """`instead` as in `by_driver`; `source` goes to each driver, empty: as the robot file says."""
        self._drivers: list[CameraDriver] = []
        self._of: dict[str, CameraDriver] = {}
        try:
            for name, cameras in by_driver(spec, instead).items():
                driver = create_cameras(name, cameras, node, source)
                self._drivers.append(driver)
                self._of |= dict.fromkeys(cameras, driver)
        except BaseException:
            self.close()
            raise

    @property
    def names(self) -> list[str]:
        """Its cameras."""
        return list(self._of)

    def frames(self) -> Mapping[str, Frame]:
        return {name: frame for driver in self._drivers for name, frame in driver.frames().items()}

    def focal_px(self, camera: str) -> float:
        return self._of[camera].focal_px(camera)

    def close(self) -> None:
        for driver in self._drivers:
            driver.close()


def live(rgb: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.uint8]:
    """Picture number `count`, with noise in its last column.

    For drivers without a real sensor, whose noise makes every picture different: the runtime takes a picture that stays
    the same while the arm moves for that of a frozen camera (`rosa_client/sensing/frozen_picture.py`).
    """
    noisy = rgb.copy()
    last = noisy[:, -1]
    last ^= np.random.default_rng(count).integers(0, 2, last.shape, np.uint8) * np.uint8(NOISE)
    return noisy


def fit(rgb: npt.NDArray[np.uint8], spec: CameraSpec) -> npt.NDArray[np.uint8]:
    """`rgb` at the size of `spec`: the largest middle part of that shape, scaled."""
    import cv2

    height, width = rgb.shape[:2]
    if (width, height) == (spec.width, spec.height):
        return rgb
    scale = min(width / spec.width, height / spec.height)
    w, h = max(1, int(spec.width * scale)), max(1, int(spec.height * scale))
    x, y = (width - w) // 2, (height - h) // 2
    part = rgb[y : y + h, x : x + w]
    fitted = cv2.resize(part, (spec.width, spec.height), interpolation=cv2.INTER_AREA)
    return fitted.astype(np.uint8, copy=False)
