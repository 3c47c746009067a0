"""USB cameras through OpenCV.

`source`: camera=device pairs, such as "front=/dev/video0,wrist=/dev/video2"; empty: the `source` of each camera in the
robot file.
"""

from __future__ import annotations

import glob
import os
import threading
import time
from collections.abc import Mapping

import cv2
import numpy as np
from rclpy.node import Node

from rosa_client.drivers import DriverError
from rosa_client.drivers.cameras import Frame, fit
from rosa_contract.config.cameras import CameraSpec

RETRY_S = 1.0


class V4l2Cameras:
    """One reading thread per device; a device that goes away is opened again every second."""

    def __init__(self, cameras: Mapping[str, CameraSpec], node: Node, source: str) -> None:
        devices = parse_source(source, cameras)
        self._cameras = cameras
        self._newest: dict[str, tuple[np.ndarray, float]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._log = node.get_logger()
        opened = {name: opened_device(name, devices[name]) for name in cameras}
        self._threads = [
            threading.Thread(target=self._read, args=(name, devices[name], opened[name]), daemon=True)
            for name in cameras
        ]
        for thread in self._threads:
            thread.start()

    def frames(self) -> Mapping[str, Frame]:
        with self._lock:
            newest, self._newest = self._newest, {}
        now_s = time.monotonic()
        return {
            name: Frame(fit(rgb, self._cameras[name]), now_s - taken_s)
            for name, (rgb, taken_s) in newest.items()
        }

    def focal_px(self, camera: str) -> float:
        return 0.0

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=2.0)

    def _read(self, name: str, device: str, capture: cv2.VideoCapture) -> None:
        """Pictures of `capture`, and when it gives none any more, of the device opened again."""
        while not self._stop.is_set():
            ask_for_size(capture, self._cameras[name])
            capture.set(cv2.CAP_PROP_FPS, self._cameras[name].rate_hz)
            capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)
            while not self._stop.is_set():
                got, bgr = capture.read()
                if not got:
                    break
                rgb = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
                with self._lock:
                    self._newest[name] = rgb.astype(np.uint8, copy=False), time.monotonic()
            capture.release()
            if not self._stop.is_set():
                self._log.error(f"camera {name}: {device} gives no picture; trying again every {RETRY_S:g} s")
                self._stop.wait(RETRY_S)
                capture = open_device(device)


def open_device(device: str) -> cv2.VideoCapture:
    return cv2.VideoCapture(int(device) if device.isdigit() else device, cv2.CAP_V4L2)


def ask_for_size(capture: cv2.VideoCapture, spec: CameraSpec) -> None:
    """Pictures at least as large as `spec`, where the device has them. One that gives them already is left alone: asked
    for another size than it has, a device chooses the nearest, which may be smaller."""
    sizes = {cv2.CAP_PROP_FRAME_WIDTH: spec.width, cv2.CAP_PROP_FRAME_HEIGHT: spec.height}
    if any(capture.get(what) < px for what, px in sizes.items()):
        for what, px in sizes.items():
            capture.set(what, px)


def opened_device(camera: str, device: str) -> cv2.VideoCapture:
    """The device, open. Raises `DriverError` saying why it is not."""
    path = f"/dev/video{device}" if device.isdigit() else device
    if not os.path.exists(path):
        there = ", ".join(sorted(glob.glob("/dev/video*"))) or "none"
        raise DriverError(f"v4l2: camera {camera}: no device {path}; there are: {there}")
    if not os.access(path, os.R_OK | os.W_OK):
        raise DriverError(
            f"v4l2: camera {camera}: no permission for {path}; is this user in the group 'video'?"
        )
    capture = open_device(device)
    if not capture.isOpened():
        words = "cannot be opened as a camera; does another program use it?"
        raise DriverError(f"v4l2: camera {camera}: {path} {words}")
    return capture


def parse_source(source: str, cameras: Mapping[str, CameraSpec]) -> dict[str, str]:
    """Camera -> device. Raises `DriverError` unless every camera has one."""
    if not source:
        if lacking := [name for name, camera in cameras.items() if not camera.source]:
            path = f"cameras.{lacking[0]}.source"
            raise DriverError(f"v4l2: camera {lacking[0]} has no device; set {path}, such as /dev/video0")
        return {name: camera.source for name, camera in cameras.items()}
    pairs = dict(part.strip().partition("=")[::2] for part in source.split(",") if part.strip())
    if set(pairs) != set(cameras) or not all(pairs.values()):
        wanted = ",".join(f"{name}=/dev/video{i}" for i, name in enumerate(cameras))
        raise DriverError(f"v4l2: expected source like {wanted!r}, got {source!r}")
    return pairs
