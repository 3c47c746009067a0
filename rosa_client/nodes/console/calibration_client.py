"""The ROS client behind `rosa calibrate`: takes pictures while the arm stands still, and moves it from pose to pose.

An arm obeys the sender with the greatest epoch. So after a calibration that moved the arm, the robot's runtime has to
be started again before the next task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rosa_interfaces.msg import ArmCommand, ArmStatus, RobotStatus
from sensor_msgs.msg import CompressedImage, Image, JointState

from rosa_client.calibration.board import Array
from rosa_client.calibration.errors import CalibrationError
from rosa_client.drivers.arms.ros2_control_rules import resolve
from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.nodes.base.qos import LATEST, asked
from rosa_client.ros.clock import steady_timer
from rosa_client.ros.own_node import own_node
from rosa_contract.config.cameras import picture_topic
from rosa_contract.config.robot import RobotSpec
from rosa_contract.errors import CodecError
from rosa_contract.wire.images import EncodedImage, Rgb, decode_image, written_size

FIND_S = 10.0
STILL_S = 0.4  # without a joint that moves; a picture that is taken afterwards shows the arm at rest
STILL_RAD = 1e-3
SETTLE_S = 10.0
MOVE_S = 60.0
ALIVE_EVERY_S = 0.025  # without it the arm holds after 0.1 s


@contextmanager
def connected(namespace: str, camera: str, spec: RobotSpec) -> Iterator[CalibrationClient]:
    """A client for one calibration, with its own ROS context."""
    prepare_environment()
    with own_node("rosa_calibrate") as (node, executor):
        client = CalibrationClient(node, executor, f"/{namespace.strip('/')}", camera, spec)
        try:
            yield client
        finally:
            client.hold()


class CalibrationClient:
    """Spins its own node while it waits. Not thread-safe."""

    def __init__(self, node: Any, executor: Any, prefix: str, camera: str, spec: RobotSpec) -> None:
        self._executor = executor
        self._spec = spec
        self._camera = spec.cameras[camera]
        self._picture: Any = None
        self._joints: list[tuple[float, Array]] = []
        self._arm: Any = None
        self._task = ""
        self._epoch, self._seq = 0, 0
        self._topic = resolve(prefix, picture_topic(camera, self._camera))
        kind = Image if self._camera.encoding == "rgb8" else CompressedImage
        node.create_subscription(kind, self._topic, self._on_picture, asked(self._camera))
        self._joint_topic = f"{prefix}/joint_states"
        node.create_subscription(JointState, self._joint_topic, self._on_joints, qos_profile_sensor_data)
        node.create_subscription(ArmStatus, f"{prefix}/arm_status", self._on_arm, QoSProfile(depth=10))
        node.create_subscription(RobotStatus, f"{prefix}/robot_status", self._on_status, LATEST)
        self._orders = node.create_publisher(ArmCommand, f"{prefix}/arm_command", QoSProfile(depth=50))
        steady_timer(node, ALIVE_EVERY_S, self._alive)

    def take(self, with_arm: bool) -> tuple[Rgb, Array | None]:
        """The next picture (height, width, 3), and with the arm its joint positions (dof,), once it stands still."""
        self._picture, self._joints = None, []
        if with_arm and not self._spin(self._still, SETTLE_S):
            reason = (
                "the arm does not come to rest"
                if self._joints
                else f"nothing is heard on {self._joint_topic}"
            )
            raise CalibrationError("no_robot", f"{reason} within {SETTLE_S:g} s; are the robot's nodes up?")
        self._picture = None  # what is under way may show the arm before it came to rest
        for _ in range(2):
            self._picture = None
            if not self._spin(lambda: self._picture is not None, FIND_S):
                words = f"no picture on {self._topic} within {FIND_S:g} s; are the robot's nodes up?"
                raise CalibrationError("no_robot", words)
        if not with_arm:
            return self._decoded(), None
        if not self._still():
            raise CalibrationError("no_robot", "the arm moved while the picture was taken; take it again")
        return self._decoded(), np.mean([q for _, q in self._joints], axis=0)

    def may_move(self) -> None:
        """Raises `CalibrationError` unless the arm is there, without a fault, and without a task."""
        if not self._spin(lambda: self._arm is not None, FIND_S):
            raise CalibrationError(
                "no_robot", f"no arm is heard within {FIND_S:g} s; are the robot's nodes up?"
            )
        self._spin(lambda: False, 0.5)  # for the runtime's status
        if self._task:
            raise CalibrationError("no_robot", f"the robot runs its task {self._task!r}; cancel it first")
        if self._arm.emergency_stop or self._arm.fault:
            why = "its emergency stop is latched" if self._arm.emergency_stop else self._arm.fault
            raise CalibrationError("no_robot", f"the arm cannot move: {why}")
        self._epoch = max(time.time_ns(), int(self._arm.last_epoch) + 1)

    def move_to(self, q_rad: Array) -> None:
        """Move to `q_rad` (dof,) within the arm's own limits; waits until it is there. Raises `CalibrationError`."""
        self._send(
            ArmCommand(
                kind=ArmCommand.MOVE_TO, joint_target_rad=[float(q) for q in q_rad], gripper_width_m=np.nan
            )
        )
        asked = self._seq

        def there() -> bool:
            arm = self._arm
            mine = (int(arm.last_epoch), int(arm.last_seq)) == (self._epoch, asked)
            return bool(arm.fault) or (mine and arm.settled and arm.state == ArmStatus.HOLDING)

        arrived = self._spin(there, MOVE_S)
        if self._arm.fault or self._arm.emergency_stop or not arrived:
            self.hold()
            why = self._arm.fault or (
                "emergency stop" if self._arm.emergency_stop else f"not there within {MOVE_S:g} s"
            )
            raise CalibrationError("no_robot", f"the arm does not go to the pose: {why}")

    def joints(self) -> Array:
        """Where the arm is now (dof,), rad. Raises `CalibrationError`."""
        if not self._spin(lambda: bool(self._joints), FIND_S):
            raise CalibrationError(
                "no_robot", f"nothing is heard on {self._joint_topic}; are the robot's nodes up?"
            )
        return self._joints[-1][1]

    def hold(self) -> None:
        """Stop where it is; nothing when the arm was never moved from here."""
        if self._epoch:
            self._send(ArmCommand(kind=ArmCommand.HOLD, reason="calibration has ended"))
            self._spin(lambda: False, 0.2)
            self._epoch = 0

    def _send(self, command: ArmCommand) -> None:
        self._seq += 1
        command.epoch, command.seq = self._epoch, self._seq
        command.reason = command.reason or "calibration"
        self._orders.publish(command)

    def _alive(self) -> None:
        if self._epoch:
            alive = ArmCommand(kind=ArmCommand.ALIVE, epoch=self._epoch, seq=self._seq)
            self._orders.publish(alive)

    def _still(self) -> bool:
        """Over the last `STILL_S`; drops what is older."""
        now_s = time.monotonic()
        if not self._joints or now_s - self._joints[0][0] < STILL_S:
            return False
        self._joints = [entry for entry in self._joints if now_s - entry[0] <= 2 * STILL_S]
        angles = np.array([q for _, q in self._joints])
        return len(angles) > 3 and float(np.ptp(angles, axis=0).max()) < STILL_RAD

    def _decoded(self) -> Rgb:
        message = self._picture
        try:
            if self._camera.encoding == "rgb8":
                return decode_image(EncodedImage("rgb8", message.height, message.width, bytes(message.data)))
            data = bytes(message.data)
            height, width = written_size(self._camera.encoding, data)
            return decode_image(EncodedImage(self._camera.encoding, height, width, data))
        except CodecError as error:
            raise CalibrationError("bad_picture", f"{self._topic}: {error}") from None

    def _spin(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        until_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > until_s:
                return False
            self._executor.spin_once(timeout_sec=0.02)
        return True

    def _on_picture(self, message: Any) -> None:
        self._picture = message

    def _on_joints(self, message: Any) -> None:
        places = {name: number for number, name in enumerate(message.name)}
        if all(name in places for name in self._spec.joints):
            angles = np.array([message.position[places[name]] for name in self._spec.joints])
            self._joints.append((time.monotonic(), angles))

    def _on_arm(self, message: Any) -> None:
        self._arm = message

    def _on_status(self, message: Any) -> None:
        self._task = str(message.task)
