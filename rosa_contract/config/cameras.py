"""A camera of a robot file: its images, driver, intrinsics and mounting pose."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rosa_contract.config.strict import Reader
from rosa_contract.setting import setting
from rosa_contract.wire.images import ENCODINGS
from rosa_contract.wording import name_problem, shown

EXTERNAL = "external"
JOINT_STATE = "joint_state"  # what a robot looks at besides its cameras, and calls so among them
# OpenCV's coefficients, by how many there are, and what sensor_msgs/CameraInfo calls their model.
DISTORTION_MODELS = {0: "plumb_bob", 4: "plumb_bob", 5: "plumb_bob", 8: "rational_polynomial"}
# The reliability of a camera's topics. REP 2003: reliable from a publisher, best effort to a subscriber.
BY_REP_2003, RELIABLE, BEST_EFFORT = "rep_2003", "reliable", "best_effort"
COMPRESSED = "/compressed"  # image_transport's name for the JPEG or PNG beside a raw topic
TOPIC = re.compile(r"/?[A-Za-z_]\w*(/[A-Za-z_]\w*)*", re.ASCII)
UNIT = 1e-3  # how far the length of a written quaternion may be from 1


@dataclass(frozen=True)
class Intrinsics:
    """Intrinsics as defined by OpenCV, for images of the camera's `width` and `height`."""

    fx: float = setting("focal length along x, px", above=0)
    fy: float = setting("focal length along y, px", above=0)
    cx: float = setting("x of the principal point, px from the left")
    cy: float = setting("y of the principal point, px from the top")
    distortion: tuple[float, ...] = setting(
        "OpenCV distortion coefficients k1 k2 p1 p2 [k3 [k4 k5 k6]]; empty: no distortion", ()
    )

    @property
    def model(self) -> str:
        """The name of the distortion model in sensor_msgs/CameraInfo."""
        return DISTORTION_MODELS[len(self.distortion)]


@dataclass(frozen=True)
class CameraPose:
    """Pose of a camera's optical frame (x right, y down, z forward; REP 103) in the frame of a robot link."""

    parent: str = setting("robot link (in its URDF) that the camera is fixed to, such as panda_hand")
    xyz_m: tuple[float, ...] = setting("position in the parent frame, m", length=3)
    quaternion_xyzw: tuple[float, ...] | None = setting(
        "orientation in the parent frame; give either this or `rpy_rad`", None, length=4
    )
    rpy_rad: tuple[float, ...] | None = setting(
        "orientation as roll, pitch, yaw about the parent's fixed x, y, z axes, as in a URDF, rad",
        None,
        length=3,
    )

    @property
    def quaternion(self) -> tuple[float, float, float, float]:
        """Orientation as a unit quaternion x, y, z, w, however the file gives it."""
        if self.quaternion_xyzw is not None:
            x, y, z, w = self.quaternion_xyzw
            length = math.hypot(x, y, z, w)
            return x / length, y / length, z / length, w / length
        assert self.rpy_rad is not None
        return quaternion_of(*self.rpy_rad)


@dataclass(frozen=True)
class CameraSpec:
    """One camera: size, encoding, driver, topic and calibration."""

    width: int = setting("image width, px", at_least=1, at_most=4096)
    height: int = setting("image height, px", at_least=1, at_most=4096)
    encoding: str = setting("image encoding on the wire", "jpeg", choices=ENCODINGS)
    quality: int = setting("JPEG quality", 90, at_least=1, at_most=100)
    min_quality: int | None = setting(
        "lowest JPEG quality to which the robot may go while the network is too slow for the deadlines; default:"
        " quality is never lowered",
        None,
        at_least=1,
        at_most=100,
    )
    rate_hz: float = setting("frame rate", 30.0, above=0, at_most=1000)
    driver: str = setting(
        "camera driver: a known name, `module:Class`, or `external` if another node publishes the images;"
        " default: the robot's `camera_driver`",
        "",
    )
    topic: str = setting(
        "image topic, such as a camera vendor's /camera/camera/color/image_raw/compressed: CompressedImage for"
        " jpeg and png, Image for rgb8; without a leading slash, relative to the robot's namespace; default:"
        " `<name>/image_raw/compressed`, for rgb8 `<name>/image_raw`",
        "",
    )
    reliability: str = setting(
        "QoS reliability of the image topics: rep_2003: reliable as publisher, best effort as subscriber (matches"
        " any publisher); reliable or best_effort: as both",
        BY_REP_2003,
        choices=(BY_REP_2003, RELIABLE, BEST_EFFORT),
    )
    source: str = setting("device that the driver reads, such as /dev/video0 for v4l2", "")
    intrinsics: Intrinsics | None = setting(
        "intrinsic calibration, as written by `rosa calibrate camera`; default: the driver's own, if it has one",
        None,
    )
    pose: CameraPose | None = setting(
        "mounting pose, as written by `rosa calibrate hand-eye`; without it the camera has no TF frame",
        None,
    )


def picture_topic(name: str, spec: CameraSpec) -> str:
    """The runtime's image topic; relative to the robot's namespace unless it has a leading slash."""
    return spec.topic or f"{name}/image_raw" + ("" if spec.encoding == "rgb8" else COMPRESSED)


def raw_topic(name: str, spec: CameraSpec) -> str:
    """The topic of its uncompressed images."""
    topic = picture_topic(name, spec)
    if spec.encoding == "rgb8" or topic.endswith(COMPRESSED):
        return topic.removesuffix(COMPRESSED)
    return f"{name}/image_raw"


def info_topic(name: str, spec: CameraSpec) -> str:
    """The topic of its `CameraInfo`, next to that of the uncompressed images."""
    folder, slash, _ = raw_topic(name, spec).rpartition("/")
    return f"{folder}{slash}camera_info"


def quaternion_of(roll_rad: float, pitch_rad: float, yaw_rad: float) -> tuple[float, float, float, float]:
    """Unit quaternion x, y, z, w of rotations about the fixed axes x, then y, then z (URDF's `rpy`)."""
    cr, sr = math.cos(roll_rad / 2), math.sin(roll_rad / 2)
    cp, sp = math.cos(pitch_rad / 2), math.sin(pitch_rad / 2)
    cy, sy = math.cos(yaw_rad / 2), math.sin(yaw_rad / 2)
    return (
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )


def check_cameras(reader: Reader, cameras: Mapping[str, CameraSpec], default_driver: str) -> None:
    """Report what is wrong with each camera."""
    if not cameras:
        reader.fail("cameras", "is empty; expected at least one camera", "missing")
    _check_topics(reader, cameras)
    for name, camera in cameras.items():
        if problem := name_problem(name):
            reader.fail(f"cameras.{name}", problem, "out_of_range")
        if name == JOINT_STATE:
            words = "is reserved for the robot's joint states; choose another name"
            reader.fail(f"cameras.{name}", words, "conflict")
        if not camera.driver and not default_driver:
            words = "is missing; expected a camera driver, here or in the robot's `camera_driver`"
            reader.fail(f"cameras.{name}.driver", words, "missing")
        if camera.topic and not TOPIC.fullmatch(camera.topic):
            words = f"expected a topic such as /camera/color/image_raw/compressed, got {shown(camera.topic)}"
            reader.fail(f"cameras.{name}.topic", words, "invalid")
        if camera.min_quality is not None and camera.encoding != "jpeg":
            words = f"only JPEG has a quality, and this camera's encoding is {camera.encoding}"
            reader.fail(f"cameras.{name}.min_quality", words, "conflict")
        elif camera.min_quality is not None and camera.min_quality > camera.quality:
            words = f"expected at most the camera's quality {camera.quality}, got {camera.min_quality}"
            reader.fail(f"cameras.{name}.min_quality", words, "out_of_range")
        if camera.intrinsics is not None:
            _check_intrinsics(reader, f"cameras.{name}.intrinsics", camera)
        if camera.pose is not None:
            _check_pose(reader, f"cameras.{name}.pose", camera.pose)


def _check_topics(reader: Reader, cameras: Mapping[str, CameraSpec]) -> None:
    """Report cameras that share a topic: they would be one camera under two names."""
    first: dict[str, str] = {}
    for name, camera in cameras.items():
        topic = picture_topic(name, camera)
        if topic in first:
            words = f"{topic} is already the topic of camera {first[topic]}"
            reader.fail(f"cameras.{name}.topic", words, "conflict")
        first.setdefault(topic, name)


def _check_intrinsics(reader: Reader, path: str, camera: CameraSpec) -> None:
    lens = camera.intrinsics
    assert lens is not None
    if len(lens.distortion) not in DISTORTION_MODELS:
        known = ", ".join(map(str, DISTORTION_MODELS))
        words = f"expected {known} coefficients, got {len(lens.distortion)}"
        reader.fail(f"{path}.distortion", words, "wrong_length")
    for name, value, limit in (("cx", lens.cx, camera.width), ("cy", lens.cy, camera.height)):
        if not 0 <= value <= limit:
            words = f"must lie in the image, 0..{limit} px, got {value:g}; calibrated at another resolution?"
            reader.fail(f"{path}.{name}", words, "conflict")


def _check_pose(reader: Reader, path: str, pose: CameraPose) -> None:
    if not pose.parent:
        reader.fail(f"{path}.parent", "expected a link of the robot, got nothing", "missing")
    if (pose.quaternion_xyzw is None) == (pose.rpy_rad is None):
        got = "neither" if pose.rpy_rad is None else "both"
        cause = "missing" if pose.rpy_rad is None else "conflict"
        reader.fail(path, f"expected either quaternion_xyzw or rpy_rad, got {got}", cause)
    elif pose.quaternion_xyzw is not None and abs(math.hypot(*pose.quaternion_xyzw) - 1) > UNIT:
        words = f"must have length 1, got {math.hypot(*pose.quaternion_xyzw):.4f}; the order is x, y, z, w"
        reader.fail(f"{path}.quaternion_xyzw", words, "out_of_range")
