"""The camera node: all cameras of one robot, as pictures, compressed pictures and camera_info.

A camera without a new picture publishes nothing. The runtime notices its silence by the age of the newest sample.
"""

from __future__ import annotations

import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from rosa_client.drivers import DriverError
from rosa_client.drivers.cameras import AllCameras, Frame
from rosa_client.frames import optical_frame
from rosa_client.nodes.base.managed import ManagedNode
from rosa_client.nodes.base.parameters import Parameter
from rosa_client.nodes.base.qos import offered
from rosa_client.nodes.base.rate import Rate
from rosa_client.nodes.base.shell import run_node
from rosa_client.nodes.robot.camera_messages import camera_info, lens_of
from rosa_client.ros.clock import stamp_before, steady_timer
from rosa_contract.config.cameras import CameraSpec, Intrinsics, info_topic, picture_topic, raw_topic
from rosa_contract.config.robot import load_robot
from rosa_contract.wire.images import encode_image

PARAMETERS = {
    "robot": Parameter("", "robot file, such as configs/robots/panda.yaml"),
    "driver": Parameter("", "driver of every camera; empty: those of the robot file"),
    "source": Parameter(
        "",
        "what the driver reads; empty: as the robot file says. replay: folder; v4l2: front=/dev/video0,...",
    ),
    "rate_hz": Parameter(0.0, "frames per second of every camera; 0: each as the robot file says", 0, 1000),
    "raw": Parameter(True, "publish uncompressed pictures too"),
}


class CameraNode(ManagedNode):
    """Publishes the frames of the drivers, each camera at its own rate; while it is inactive, none."""

    expected = (*ManagedNode.expected, RuntimeError)  # where nothing can be rendered

    def __init__(self) -> None:
        super().__init__("camera_node", PARAMETERS)
        self._driver: AllCameras | None = None
        self._cameras: list[Camera] = []
        self.start()

    def configure(self) -> None:
        spec = load_robot(self.get_parameter("robot").value)
        driver = self.get_parameter("driver").value
        self._driver = AllCameras(spec, self, driver, self.get_parameter("source").value)
        mine = {name: spec.cameras[name] for name in self._driver.names}
        if not mine:
            raise DriverError(
                "every camera of the robot file is external: there is nothing to do for a camera_node"
            )
        raw = self.get_parameter("raw").value
        self._cameras = [
            Camera(
                self,
                name,
                camera,
                optical_frame(self.get_namespace(), name),
                lens_of(camera, self._driver.focal_px(name)),
                raw,
                camera.source or driver or spec.camera_driver_of(name),
            )
            for name, camera in mine.items()
        ]
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        wanted_hz = self.get_parameter("rate_hz").value
        rates = {name: wanted_hz or camera.rate_hz for name, camera in mine.items()}
        period_s = 1 / max(rates.values())
        self._rates = {name: Rate(rate_hz, period_s) for name, rate_hz in rates.items()}
        steady_timer(self, period_s, self._tick)
        steady_timer(self, 1.0, self._diagnose)
        names = ", ".join(
            f"{name} {camera.width}x{camera.height} at {rates[name]:g} Hz"
            f" ({driver or spec.camera_driver_of(name)})"
            for name, camera in mine.items()
        )
        self.get_logger().info(f"cameras {names}")

    def clean_up(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None
        self._cameras = []

    def _tick(self) -> None:
        """Publish the new frames of the cameras whose turn it is; a frame in between is dropped."""
        if self._driver is None or not self.active:
            return
        frames, now_s = self._driver.frames(), time.monotonic()
        for camera in self._cameras:
            if camera.name in frames and self._rates[camera.name].due(now_s):
                camera.publish(frames[camera.name])

    def _diagnose(self) -> None:
        array = DiagnosticArray(status=[camera.diagnose(self.active) for camera in self._cameras])
        array.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(array)


class Camera:
    """The topics of one camera: `<name>/image_raw`, `<name>/image_raw/compressed`, `<name>/camera_info`, or its own."""

    def __init__(
        self,
        node: Node,
        name: str,
        spec: CameraSpec,
        frame_id: str,
        lens: Intrinsics | None,
        raw: bool,
        hardware: str,
    ) -> None:
        """`raw`: publish uncompressed pictures too; `hardware`: the device, for diagnostics."""
        self.name = name
        self._hardware = hardware
        self._node = node
        self._spec = spec
        self._frame_id = frame_id
        self._info = camera_info(spec, lens)
        self._raw = spec.encoding == "rgb8" or raw
        self._images = self._publisher(Image, raw_topic(name, spec)) if self._raw else None
        compressed = spec.encoding != "rgb8"
        self._compressed = self._publisher(CompressedImage, picture_topic(name, spec)) if compressed else None
        self._infos = self._publisher(CameraInfo, info_topic(name, spec))
        self._count = 0
        self._since_s = time.monotonic()

    def publish(self, frame: Frame) -> None:
        """All messages of one frame carry the time at which it was taken."""
        self._info.header.stamp = stamp_before(self._node.get_clock(), frame.age_s)
        self._info.header.frame_id = self._frame_id
        header = self._info.header
        height, width = frame.rgb.shape[:2]
        if self._compressed is not None:
            encoded = encode_image(frame.rgb, self._spec.encoding, self._spec.quality)
            text = f"rgb8; {self._spec.encoding} compressed bgr8"  # as image_transport writes and reads it
            self._compressed.publish(CompressedImage(header=header, format=text, data=encoded.data))
        if self._images is not None:
            image = Image(header=header, height=height, width=width, encoding="rgb8", step=width * 3)
            image.data = frame.rgb.tobytes()
            self._images.publish(image)
        self._infos.publish(self._info)
        self._count += 1

    def diagnose(self, active: bool) -> DiagnosticStatus:
        """The frame rate since the last call, compared with the robot file's."""
        now_s = time.monotonic()
        rate_hz = self._count / (now_s - self._since_s)
        self._count, self._since_s = 0, now_s
        wanted_hz = self._spec.rate_hz
        status = DiagnosticStatus(name=f"{self._node.get_fully_qualified_name()}: {self.name}")
        status.hardware_id = self._hardware
        if not active:
            status.level, status.message = DiagnosticStatus.WARN, "the camera node is inactive"
        elif rate_hz == 0:
            status.level, status.message = DiagnosticStatus.ERROR, "no new picture"
        elif rate_hz < 0.7 * wanted_hz:
            status.level, status.message = DiagnosticStatus.WARN, f"slow: {rate_hz:.1f} of {wanted_hz:g} Hz"
        else:
            status.level, status.message = DiagnosticStatus.OK, f"{rate_hz:.1f} Hz"
        status.values = [KeyValue(key="rate_hz", value=f"{rate_hz:.2f}")]
        return status

    def _publisher(self, kind: Any, topic: str) -> Any:
        return self._node.create_publisher(kind, topic, offered(self._spec))


def main() -> None:
    run_node(CameraNode, CameraNode.expected)


if __name__ == "__main__":
    main()
