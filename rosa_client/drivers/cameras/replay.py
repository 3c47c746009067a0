"""Recorded pictures instead of cameras, in a loop: `source`/<camera>.mp4 or the images in `source`/<camera>/.

`source` is the folder; empty: the `source` of each camera in the robot file.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from rclpy.node import Node

from rosa_client.drivers import DriverError
from rosa_client.drivers.cameras import Frame, fit, live
from rosa_contract.config.cameras import CameraSpec

IMAGES = (".png", ".jpg", ".jpeg")


class ReplayCameras:
    """Each call of `frames` gives the next picture of each camera."""

    def __init__(self, cameras: Mapping[str, CameraSpec], node: Node | None, source: str) -> None:
        self._cameras = cameras
        self._pictures = {name: endless(Path(source or spec.source), name) for name, spec in cameras.items()}
        self._count = 0

    def frames(self) -> Mapping[str, Frame]:
        self._count += 1
        return {
            name: Frame(live(fit(next(self._pictures[name]), spec), self._count))
            for name, spec in self._cameras.items()
        }

    def focal_px(self, camera: str) -> float:
        return 0.0

    def close(self) -> None:
        for pictures in self._pictures.values():
            pictures.close()


Pictures = Generator[npt.NDArray[np.uint8], None, None]


def endless(source: Path, camera: str) -> Pictures:
    """The pictures of `camera` as RGB, in a loop. The source is checked at once, pictures are read one by one."""
    video = source / f"{camera}.mp4"
    images = sorted(p for p in (source / camera).glob("*") if p.suffix.lower() in IMAGES)
    if not video.is_file() and not images:
        kinds = ", ".join(IMAGES)
        raise DriverError(
            f"replay: expected {video} or images ({kinds}) in {source / camera}/, found neither"
        )
    return from_video(video) if video.is_file() else from_images(images)


def from_video(path: Path) -> Pictures:
    while True:
        capture = cv2.VideoCapture(str(path))
        count = 0
        try:
            while True:
                got, bgr = capture.read()
                if not got:
                    break
                count += 1
                yield cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)
        finally:
            capture.release()
        if count == 0:
            raise DriverError(f"replay: {path} holds no picture that OpenCV can read")


def from_images(paths: list[Path]) -> Pictures:
    while True:
        for path in paths:
            bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
            if bgr is None:
                raise DriverError(f"replay: {path} is not a picture that OpenCV can read")
            yield cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)
