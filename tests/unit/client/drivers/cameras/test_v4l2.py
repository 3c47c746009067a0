"""USB cameras without one: what is asked of a device, and what it then gives."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from rosa_client.drivers.cameras import v4l2
from rosa_contract.config.cameras import CameraSpec


class Device:
    """A camera that can do 1280x720 and gives 640x480 unless it is asked for another size, as OpenCV opens it."""

    def __init__(self) -> None:
        self.mode: dict[int, float] = {cv2.CAP_PROP_FRAME_WIDTH: 640, cv2.CAP_PROP_FRAME_HEIGHT: 480}

    def get(self, what: int) -> float:
        return self.mode[what]

    def set(self, what: int, value: float) -> bool:
        self.mode[what] = value
        return True

    def read(self) -> tuple[bool, npt.NDArray[np.uint8]]:
        time.sleep(0.005)
        width, height = (int(self.mode[key]) for key in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
        return True, np.zeros((height, width, 3), np.uint8)

    def release(self) -> None:
        pass


def first_size(device: Device, spec: CameraSpec, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Width and height of the pictures that the driver takes from the device, before it fits them."""
    taken: list[tuple[int, int]] = []

    def fit(rgb: npt.NDArray[np.uint8], spec: CameraSpec) -> npt.NDArray[np.uint8]:
        taken.append((rgb.shape[1], rgb.shape[0]))
        return rgb

    monkeypatch.setattr(v4l2, "opened_device", lambda camera, path: device)
    monkeypatch.setattr(v4l2, "fit", fit)
    node: Any = SimpleNamespace(get_logger=lambda: None)
    cameras: Mapping[str, CameraSpec] = {"front": spec}
    driver = v4l2.V4l2Cameras(cameras, node, "front=/dev/video0")
    end_s = time.monotonic() + 5.0
    while not taken and time.monotonic() < end_s:
        driver.frames()
        time.sleep(0.005)
    driver.close()
    return taken[0]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ((1280, 720), (1280, 720)),  # and not a part of a smaller picture, blown up
        ((640, 480), (640, 480)),
        ((224, 224), (640, 480)),  # a device that is asked for less than it gives may choose still less
    ],
)
def test_a_device_is_asked_for_pictures_that_are_large_enough(
    asked: tuple[int, int], given: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert first_size(Device(), CameraSpec(*asked), monkeypatch) == given
