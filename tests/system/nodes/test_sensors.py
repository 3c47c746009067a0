"""The runtime's sensors over real topics: what is kept, and what is refused and therefore grows stale."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, JointState

from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.nodes.robot.sensors import Sensors
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.wire.images import encode_image

ROBOT = Path(__file__).parents[3] / "configs" / "robots" / "panda.yaml"
PATIENCE_S = 20.0
SLACK_S = 0.1  # between readings of two clocks


class Bench:
    """A node with the sensors under test and publishers in the place of arm and cameras."""

    def __init__(self) -> None:
        self.robot: RobotSpec = load_robot(ROBOT)
        self.node = Node("bench", namespace="bench")
        self.sensors = Sensors(self.node, self.robot)
        qos = qos_profile_sensor_data
        self.joints = self.node.create_publisher(JointState, "joint_states", qos)
        self.camera = self.node.create_publisher(CompressedImage, "front/image_raw/compressed", qos)
        self.until(lambda: self.joints.get_subscription_count() > 0, lambda: None)
        self.until(lambda: self.camera.get_subscription_count() > 0, lambda: None)

    def until(self, condition: Callable[[], bool], again: Callable[[], Any]) -> None:
        """Do something again and again until `condition` holds; best-effort topics may lose a message."""
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end_s, "the condition did not come true"
            again()
            rclpy.spin_once(self.node, timeout_sec=0.02)

    def joint_state(self, *, first: float = 0.1) -> JointState:
        names = [*self.robot.joints, "panda_finger_joint1", "panda_finger_joint2"]
        return JointState(name=names, position=[first, 0.2, 0.3, -0.4, 0.5, 0.6, 0.7, 0.02, 0.02])


@pytest.fixture
def bench() -> Iterator[Bench]:
    prepare_environment()
    rclpy.init()
    it = Bench()
    yield it
    it.node.destroy_node()
    rclpy.shutdown()


def test_joints_come_in_the_robots_order_and_the_fingers_make_the_width(bench: Bench) -> None:
    shuffled = bench.joint_state()
    shuffled.name, shuffled.position = shuffled.name[::-1], shuffled.position[::-1]
    bench.until(lambda: "joint_state" in bench.sensors.stamps(), lambda: bench.joints.publish(shuffled))
    state, _ = bench.sensors.newest()
    assert np.allclose(state["joint_position"], [0.1, 0.2, 0.3, -0.4, 0.5, 0.6, 0.7])
    assert np.allclose(state["gripper_width"], [0.04])


def test_joint_states_of_other_names_are_answered_with_the_names_that_came(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    other = JointState(name=["ur_pan", "ur_lift"], position=[0.1, 0.2])
    said = ""

    def heard() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "panda_joint7; they hold ur_pan, ur_lift" in said

    bench.until(heard, lambda: bench.joints.publish(other))


def test_how_far_a_gripper_without_finger_joints_is_open_is_unknown(bench: Bench) -> None:
    assert bench.sensors.gripper_widths_m() == (None,), "nothing was heard"
    bare = bench.joint_state()
    bare.name, bare.position = bare.name[:7], bare.position[:7]
    bench.until(lambda: "joint_state" in bench.sensors.stamps(), lambda: bench.joints.publish(bare))
    assert bench.sensors.gripper_widths_m() == (None,)
    assert bench.sensors.newest()[0]["gripper_width"].shape == (1,)
    whole = bench.joint_state()
    bench.until(lambda: bench.sensors.gripper_widths_m() != (None,), lambda: bench.joints.publish(whole))
    assert bench.sensors.gripper_widths_m() == pytest.approx((0.04,))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_joint_that_is_not_a_number_is_not_taken_so_that_the_state_grows_stale(
    bench: Bench, bad: float
) -> None:
    good, broken = bench.joint_state(), bench.joint_state(first=bad)
    bench.until(lambda: "joint_state" in bench.sensors.stamps(), lambda: bench.joints.publish(good))
    marker = bench.joint_state()
    for _ in range(20):
        bench.joints.publish(broken)
        rclpy.spin_once(bench.node, timeout_sec=0.02)
    stamp = bench.sensors.stamps()["joint_state"]
    assert np.isfinite(bench.sensors.newest()[0]["joint_position"]).all()
    bench.until(lambda: bench.sensors.stamps()["joint_state"] > stamp, lambda: bench.joints.publish(marker))


def test_jpeg_bytes_are_passed_on_as_they_came(bench: Bench) -> None:
    picture = encode_image(np.full((96, 96, 3), 77, np.uint8))
    message = CompressedImage(format="rgb8; jpeg compressed bgr8", data=bytes(picture.data))
    bench.until(lambda: "front" in bench.sensors.stamps(), lambda: bench.camera.publish(message))
    assert bytes(bench.sensors.newest()[1]["front"].data) == bytes(picture.data)


def test_a_picture_in_another_encoding_than_announced_is_not_taken(bench: Bench) -> None:
    picture = encode_image(np.full((96, 96, 3), 77, np.uint8), "png")
    for _ in range(20):
        bench.camera.publish(CompressedImage(format="png", data=bytes(picture.data)))
        rclpy.spin_once(bench.node, timeout_sec=0.02)
    assert "front" not in bench.sensors.stamps()


def jpeg(width: int = 96, height: int = 96) -> CompressedImage:
    picture = encode_image(np.full((height, width, 3), 77, np.uint8))
    return CompressedImage(format="rgb8; jpeg compressed bgr8", data=bytes(picture.data))


def test_pictures_of_another_size_are_an_error_with_both_sizes(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    """Today's misconfigured vendor camera would be refused by the server with each request, as missed deadlines."""
    says = "pictures are 128x72 px, the robot file says 96x96"
    bench.until(
        lambda: bench.sensors.faults().get("front") == says, lambda: bench.camera.publish(jpeg(128, 72))
    )
    assert "front" not in bench.sensors.stamps(), "they are not taken"
    assert f"front cannot be used: {says}" in "".join(capfd.readouterr())
    bench.until(lambda: "front" in bench.sensors.stamps(), lambda: bench.camera.publish(jpeg()))
    assert bench.sensors.faults() == {}


def test_bytes_that_are_no_picture_are_a_fault(bench: Bench) -> None:
    message = CompressedImage(format="jpeg", data=b"no picture")
    bench.until(lambda: "front" in bench.sensors.faults(), lambda: bench.camera.publish(message))
    assert bench.sensors.faults()["front"].startswith("jpeg image: ")


def test_a_camera_whose_clock_is_behind_is_told_with_the_difference(bench: Bench) -> None:
    def publish(behind_s: float) -> Callable[[], None]:
        def once() -> None:
            message = jpeg()
            message.header.stamp = (bench.node.get_clock().now() - Duration(seconds=behind_s)).to_msg()
            bench.camera.publish(message)

        return once

    bench.until(lambda: "front" in bench.sensors.faults(), publish(7.5))
    assert re.match(r"stamped 7\.[5-9]\d s behind this machine's clock", bench.sensors.faults()["front"])
    bench.until(lambda: not bench.sensors.faults(), publish(0.0))


def test_a_picture_that_was_long_under_way_is_old(bench: Bench) -> None:
    picture = encode_image(np.full((96, 96, 3), 77, np.uint8))
    message = CompressedImage(format="rgb8; jpeg compressed bgr8", data=bytes(picture.data))

    def publish() -> None:
        taken = bench.node.get_clock().now() - Duration(seconds=0.8)
        message.header.stamp = taken.to_msg()
        bench.camera.publish(message)

    begun_s = time.monotonic()
    bench.until(lambda: "front" in bench.sensors.stamps(), publish)
    taken_s = bench.sensors.stamps()["front"]
    assert begun_s - 0.8 - SLACK_S < taken_s < time.monotonic() - 0.8 + SLACK_S


def test_what_is_older_than_the_newest_sample_does_not_take_its_place(bench: Bench) -> None:
    """A recording that plays beside the robot, or a driver that lags: its samples would pass for fresh ones."""

    def publish(grey: int, first_rad: float, old_s: float) -> Callable[[], None]:
        picture = encode_image(np.full((96, 96, 3), grey, np.uint8))

        def once() -> None:
            taken = (bench.node.get_clock().now() - Duration(seconds=old_s)).to_msg()
            message = CompressedImage(format="rgb8; jpeg compressed bgr8", data=bytes(picture.data))
            joints = bench.joint_state(first=first_rad)
            message.header.stamp = joints.header.stamp = taken
            bench.joints.publish(joints)
            bench.camera.publish(message)

        return once

    def shown() -> tuple[bytes, float]:
        state, images = bench.sensors.newest()
        return bytes(images["front"].data), round(float(state["joint_position"][0]), 3)

    bench.until(lambda: len(bench.sensors.stamps()) == 2, publish(77, 0.1, 0.0))
    now = shown()
    for _ in range(20):
        publish(200, 0.4, 30.0)()
        rclpy.spin_once(bench.node, timeout_sec=0.02)
    assert shown() == now
    bench.until(lambda: shown()[0] != now[0] and shown()[1] == 0.2, publish(78, 0.2, 0.0))


def test_a_picture_that_is_only_repeated_with_fresh_stamps_does_not_stay_fresh_when_the_arm_moves(
    bench: Bench,
) -> None:
    first, second = (encode_image(np.full((96, 96, 3), grey, np.uint8)) for grey in (77, 78))

    def publish(first_rad: float, picture: Any) -> Callable[[], None]:
        def once() -> None:
            bench.joints.publish(bench.joint_state(first=first_rad))
            message = CompressedImage(format="rgb8; jpeg compressed bgr8", data=bytes(picture.data))
            message.header.stamp = bench.node.get_clock().now().to_msg()
            bench.camera.publish(message)

        return once

    def sees_joint(first_rad: float) -> bool:
        state = bench.sensors.newest()[0].get("joint_position")
        return state is not None and abs(float(state[0]) - first_rad) < 1e-3

    bench.until(lambda: "front" in bench.sensors.stamps() and sees_joint(0.1), publish(0.1, first))
    still_s = bench.sensors.stamps()["front"]
    bench.until(lambda: bench.sensors.stamps()["front"] > still_s + 0.2, publish(0.1, first))
    bench.until(lambda: sees_joint(0.4), publish(0.4, first))
    moved_s = bench.sensors.stamps()["front"]
    end_s = time.monotonic() + 0.5
    bench.until(lambda: time.monotonic() > end_s, publish(0.4, first))
    assert bench.sensors.stamps()["front"] - moved_s < 0.1
    bench.until(lambda: bench.sensors.stamps()["front"] > moved_s + 0.2, publish(0.4, second))


def test_a_joint_state_that_is_only_repeated_does_not_stay_fresh(bench: Bench) -> None:
    message = bench.joint_state()
    message.header.stamp = bench.node.get_clock().now().to_msg()
    bench.until(lambda: "joint_state" in bench.sensors.stamps(), lambda: bench.joints.publish(message))
    first_s = bench.sensors.stamps()["joint_state"]
    end_s = time.monotonic() + 0.5
    bench.until(lambda: time.monotonic() > end_s, lambda: bench.joints.publish(message))
    assert abs(bench.sensors.stamps()["joint_state"] - first_s) < 0.05
