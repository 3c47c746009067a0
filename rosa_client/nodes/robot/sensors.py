"""The newest sample of every sensor of one robot, with its time on this machine's monotonic clock.

That time is the arrival minus the age that the header tells, so that a picture that was long under way is known to be
old. Headers must be stamped by this machine's clock, or one that is synchronised to it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image, JointState

from rosa_client.nodes.base.qos import asked, offers
from rosa_client.ros.clock import steady_timer
from rosa_client.sensing.clock_difference import ClockWatch
from rosa_client.sensing.frozen_picture import FrozenPictures, fingerprint
from rosa_client.sensing.picture_offers import why_unmatched, wrong_format
from rosa_client.sensing.picture_size import wrong_size
from rosa_client.sensing.sample_age import SampleTimes
from rosa_contract.clock import MonotonicClock
from rosa_contract.config.cameras import JOINT_STATE, picture_topic
from rosa_contract.config.robot import RobotSpec
from rosa_contract.errors import CodecError
from rosa_contract.wire.images import EncodedImage, written_size
from rosa_contract.wire.messages import Array

GRIPPER = "gripper"
FINGER = "finger_joint"  # a joint with this in its name is half of the gripper's width
LOOK_EVERY_S = 1.0
SAY_AFTER_S = 0.3  # one late picture is normal


class Sensors:
    """Subscribes to cameras and joint states; callbacks and readers may be different threads.

    JPEG and PNG frames are passed on as they came: the robot never decodes an image to send it. Only the size that they
    announce is read, since the server refuses a picture of another size than the robot told it, request by request.
    """

    def __init__(self, node: Node, robot: RobotSpec) -> None:
        self._robot = robot
        self._clock = MonotonicClock()
        self._lock = threading.Lock()
        self._times = SampleTimes()
        self._frozen = FrozenPictures()
        self._clocks = ClockWatch(robot.max_sensor_age_ms / 1000)
        self._faults: dict[str, str] = {}  # sensor -> why what it sends is not taken, or is old
        self._wall_ns: Callable[[], int] = lambda: node.get_clock().now().nanoseconds
        self._images: dict[str, EncodedImage] = {}
        self._state: dict[str, Array] = {}
        self._widths_m: tuple[float | None, ...] = (None,) * len(robot.grippers)
        self._log = node.get_logger()
        self._warn = self._log.warning
        node.create_subscription(JointState, "joint_states", self._on_joints, qos_profile_sensor_data)
        for name, camera in robot.cameras.items():
            raw = camera.encoding == "rgb8"
            kind, keep = (
                (Image, self._keep_raw(name)) if raw else (CompressedImage, self._keep_compressed(name))
            )
            topic = picture_topic(name, camera)
            told = SubscriptionEventCallbacks(incompatible_qos=lambda _: None)  # `_look` tells it
            node.create_subscription(kind, topic, keep, asked(camera), event_callbacks=told)
        self._offers = partial(offers, node)
        steady_timer(node, LOOK_EVERY_S, self._look)

    def stamps(self) -> dict[str, float]:
        """Sensor -> when its newest sample was taken, s."""
        with self._lock:
            return self._times.taken_s()

    def faults(self) -> dict[str, str]:
        """Sensor -> why what arrives from it cannot be used, in words."""
        with self._lock:
            return dict(self._faults)

    def newest(self) -> tuple[dict[str, Array], dict[str, EncodedImage]]:
        """`joint_position` (joints,) float32 rad and `gripper_width` (grippers,) float32 m, and one frame per camera.

        A robot without a gripper has no `gripper_width`. Where the finger joints are missing, a model gets the width 0;
        `gripper_widths_m` says that it is unknown.
        """
        with self._lock:
            return dict(self._state), dict(self._images)

    def gripper_widths_m(self) -> tuple[float | None, ...]:
        """Distance between the fingers of each gripper in the newest joint state; None where it is unknown."""
        with self._lock:
            return self._widths_m

    def _on_joints(self, message: JointState) -> None:
        positions = dict(zip(message.name, message.position, strict=False))
        missing = [name for name in self._robot.joints if not math.isfinite(positions.get(name, math.nan))]
        if missing:  # not stored, so it grows stale and the arm stops, as for a silent sensor
            heard = ", ".join(positions) or "no joints"
            self._warn(
                f"joint_states: no finite position for {', '.join(missing)}; they hold {heard}",
                throttle_duration_sec=1.0,
            )
            return
        state = {"joint_position": np.array([positions[name] for name in self._robot.joints], np.float32)}
        widths = tuple(self._width(positions, name) for name in self._robot.grippers)
        if widths:
            state["gripper_width"] = np.array([width or 0.0 for width in widths], np.float32)
        with self._lock:
            if self._arrived(JOINT_STATE, self._clock.now_s(), self._age_s(message)):
                self._widths_m, self._state = widths, state

    def _width(self, positions: Mapping[str, float], gripper: str) -> float | None:
        finger = (
            gripper.removesuffix(GRIPPER) + FINGER
        )  # of several grippers each has its arm's name before it
        fingers = [value for name, value in positions.items() if finger in name and math.isfinite(value)]
        if not fingers:
            self._warn(
                f"joint_states: no finite position of a joint named *{finger}*, so how far {gripper} is open is"
                " unknown; it counts as holding something",
                throttle_duration_sec=10.0,
            )
            return None
        return sum(fingers) * (2 if len(fingers) == 1 else 1)

    def _look(self) -> None:
        """Look for publishers of silent cameras from which nothing can come."""
        taken_s, now_s = self.stamps(), self._clock.now_s()
        for name, camera in self._robot.cameras.items():
            if now_s - taken_s.get(name, -math.inf) > LOOK_EVERY_S:
                topic = picture_topic(name, camera)
                if why := why_unmatched(self._offers(topic), camera):
                    self._refuse(name, f"its pictures on {topic} {why}")

    def _keep_compressed(self, name: str) -> Callable[[Any], None]:
        spec = self._robot.cameras[name]

        def keep(message: CompressedImage) -> None:
            data = memoryview(message.data).cast("B")
            if words := wrong_format(message.format, spec):
                self._refuse(name, words)
                return
            try:
                height, width = written_size(spec.encoding, data)
            except CodecError as error:
                self._refuse(name, str(error))
                return
            self._take(name, EncodedImage(spec.encoding, height, width, data), message)

        return keep

    def _keep_raw(self, name: str) -> Callable[[Any], None]:
        def keep(message: Image) -> None:
            packed = message.step == message.width * 3 and len(message.data) == message.height * message.step
            if message.encoding != "rgb8" or not packed or not message.data:
                got = f"{message.encoding}, {message.width}x{message.height}, step {message.step}"
                self._refuse(name, f"expected packed rgb8, got {got}, {len(message.data)} bytes")
                return
            view = memoryview(message.data).cast("B")
            self._take(name, EncodedImage("rgb8", message.height, message.width, view), message)

        return keep

    def _take(self, name: str, image: EncodedImage, message: Any) -> None:
        """A picture as it came; one of another size than the robot file says is not stored."""
        if words := wrong_size((image.width, image.height), self._robot.cameras[name]):
            self._refuse(name, words)
        else:
            self._store(name, image, message)

    def _refuse(self, name: str, why: str) -> None:
        """What came is no sample, so the sensor is silent; the core says why."""
        with self._lock:
            self._faults[name] = why
        self._log.error(f"{name} cannot be used: {why}", throttle_duration_sec=5.0)

    def _arrived(self, name: str, now_s: float, age_s: float | None) -> bool:
        """A sample was taken `age_s` ago by its header; whether it is the newest. The lock is held."""
        is_newest = self._times.arrived(name, now_s, age_s)
        self._clocks.heard(name, now_s, age_s)
        fault = self._clocks.fault(name)
        if fault is None or fault.ahead:
            self._faults.pop(name, None)
        else:
            self._faults[name] = fault.words
        if fault is not None:
            self._warn(f"{name}: {fault.words}", throttle_duration_sec=5.0)
        return is_newest

    def _store(self, name: str, image: EncodedImage, message: Any) -> None:
        """A picture that repeats the one before although the arm has moved does not count: the camera grows stale."""
        mark = fingerprint(image)
        with self._lock:
            now_s = self._clock.now_s()
            repeated_s = self._frozen.repeated_s(name, mark, self._state.get("joint_position"), now_s)
            if not repeated_s and self._arrived(name, now_s, self._age_s(message)):
                self._images[name] = image
        if repeated_s > SAY_AFTER_S:
            self._warn(
                f"{name}: the same picture for {repeated_s:.1f} s while the arm moved; is the camera frozen?",
                throttle_duration_sec=1.0,
            )

    def _age_s(self, message: Any) -> float | None:
        """How long ago the header says that the sample was taken; None when it says nothing."""
        stamp = message.header.stamp
        stamp_ns = stamp.sec * 1_000_000_000 + stamp.nanosec
        return (self._wall_ns() - stamp_ns) / 1e9 if stamp_ns else None
