"""The QoS of pictures, and where they come from: REP 2003 by default, and as the robot file says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image

from rosa_client.drivers.cameras import Frame
from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.nodes.robot.camera_node import Camera
from rosa_client.nodes.robot.sensors import Sensors
from rosa_contract.config.cameras import BEST_EFFORT, BY_REP_2003, RELIABLE, CameraSpec
from rosa_contract.config.robot import load_robot
from rosa_contract.wire.images import encode_image

PANDA = load_robot(Path(__file__).parents[3] / "configs" / "robots" / "panda.yaml")
VENDOR = "/camera/camera/color/image_raw"
PATIENCE_S = 20.0
POLICIES = {RELIABLE: ReliabilityPolicy.RELIABLE, BEST_EFFORT: ReliabilityPolicy.BEST_EFFORT}


@pytest.fixture
def node() -> Iterator[Node]:
    prepare_environment()
    rclpy.init()
    made = Node("bench", namespace="bench")
    yield made
    made.destroy_node()
    rclpy.shutdown()


def until(node: Node, condition: Any, again: Any = lambda: None) -> Any:
    end_s = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end_s, "the condition did not come true"
        again()
        rclpy.spin_once(node, timeout_sec=0.02)
    return found


def offered(node: Node, topic: str) -> ReliabilityPolicy:
    [info] = until(node, lambda: node.get_publishers_info_by_topic(topic))
    return info.qos_profile.reliability


def sensors_of(node: Node, spec: CameraSpec) -> Sensors:
    return Sensors(node, replace(PANDA, cameras={"front": spec}))


def rgb(width: int = 96, height: int = 96) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 255, (height, width, 3), np.uint8)


@pytest.mark.parametrize(
    ("reliability", "expected"),
    [(BY_REP_2003, RELIABLE), (RELIABLE, RELIABLE), (BEST_EFFORT, BEST_EFFORT)],
)
def test_pictures_are_offered_as_the_robot_file_says(node: Node, reliability: str, expected: str) -> None:
    camera = Camera(
        node, "front", CameraSpec(96, 96, reliability=reliability), "frame", None, raw=True, hardware=""
    )
    for topic in ("image_raw", "image_raw/compressed", "camera_info"):
        assert offered(node, f"/bench/front/{topic}") == POLICIES[expected]
    assert camera.name == "front"


def test_a_subscriber_that_asks_for_reliable_pictures_gets_them(node: Node) -> None:
    """As RViz and image_transport do by default. Best effort, as before, matched neither."""
    camera = Camera(node, "front", CameraSpec(96, 96), "frame", None, raw=True, hardware="")
    seen: list[Any] = []
    node.create_subscription(Image, "front/image_raw", seen.append, QoSProfile(depth=5))
    until(node, lambda: seen, lambda: camera.publish(Frame(rgb())))


@pytest.mark.parametrize("published", [RELIABLE, BEST_EFFORT])
def test_an_external_camera_of_either_kind_is_heard_on_its_own_topic(node: Node, published: str) -> None:
    sensors = sensors_of(node, CameraSpec(96, 96, driver="external", topic=f"{VENDOR}/compressed"))
    qos = QoSProfile(depth=5, reliability=POLICIES[published])
    vendor = node.create_publisher(CompressedImage, f"{VENDOR}/compressed", qos)
    message = CompressedImage(format="rgb8; jpeg compressed bgr8", data=bytes(encode_image(rgb()).data))
    until(node, lambda: "front" in sensors.stamps(), lambda: vendor.publish(message))
    assert bytes(sensors.newest()[1]["front"].data) == bytes(message.data)


def test_raw_pictures_of_a_vendor_are_taken_and_those_of_another_size_named(node: Node) -> None:
    spec = CameraSpec(96, 96, encoding="rgb8", driver="external", topic=VENDOR)
    sensors = sensors_of(node, spec)
    vendor = node.create_publisher(Image, VENDOR, QoSProfile(depth=5))

    def publish(width: int, height: int) -> None:
        data = rgb(width, height).tobytes()
        vendor.publish(Image(height=height, width=width, encoding="rgb8", step=3 * width, data=data))

    until(node, sensors.faults, lambda: publish(128, 72))
    assert sensors.faults() == {"front": "pictures are 128x72 px, the robot file says 96x96"}
    until(node, lambda: "front" in sensors.stamps(), lambda: publish(96, 96))
    assert sensors.faults() == {}


def test_a_camera_node_publishes_where_the_robot_file_says(node: Node) -> None:
    """So that a simulated or recorded camera can take the place of the vendor's."""
    spec = CameraSpec(96, 96, topic=f"{VENDOR}/compressed")
    sensors = sensors_of(node, spec)
    camera = Camera(node, "front", spec, "frame", None, raw=True, hardware="")
    until(node, lambda: "front" in sensors.stamps(), lambda: camera.publish(Frame(rgb())))
    assert offered(node, VENDOR) == offered(node, "/camera/camera/color/camera_info") == POLICIES[RELIABLE]


def test_a_publisher_that_is_too_weak_is_a_fault_in_words(node: Node) -> None:
    sensors = sensors_of(node, CameraSpec(96, 96, driver="external", reliability=RELIABLE))
    quiet = PublisherEventCallbacks(incompatible_qos=lambda _: None)
    weak = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
    topic = "front/image_raw/compressed"
    node.create_publisher(CompressedImage, topic, weak, event_callbacks=quiet)
    until(node, sensors.faults)
    said = "are published best effort, but the robot file asks for reliability: reliable"
    assert sensors.faults() == {"front": f"its pictures on {topic} {said}"}


def test_raw_pictures_where_compressed_ones_are_expected_are_a_fault_in_words(node: Node) -> None:
    """A vendor's `image_raw` is written into the robot file, and `encoding` is left as it is."""
    sensors = sensors_of(node, CameraSpec(96, 96, driver="external", topic=VENDOR))
    context = rclpy.Context()  # in one participant a topic has one type
    rclpy.init(args=[], context=context)
    vendor = Node("vendor", context=context)
    vendor.create_publisher(Image, VENDOR, QoSProfile(depth=5))
    try:
        until(node, sensors.faults)
    finally:
        vendor.destroy_node()
        rclpy.shutdown(context=context)
    said = "are sensor_msgs/Image, expected sensor_msgs/CompressedImage for encoding jpeg"
    assert sensors.faults() == {"front": f"its pictures on {VENDOR} {said}"}
