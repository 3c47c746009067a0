"""What the doctor hears of a robot's topics, from publishers that are real."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage

from rosa_client.doctor.judges.pictures import PicturesFact
from rosa_client.doctor.probes import topics
from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.nodes.base.qos import offered
from rosa_contract.config.cameras import CameraSpec, picture_topic
from rosa_contract.wire.images import encode_image

NAME = "listened"
SPEC = CameraSpec(width=96, height=96, driver="external")
EVERY_S = 0.05


@contextmanager
def publishing(start: Callable[[Node], None]) -> Iterator[None]:
    """A node that does what `start` begins."""
    prepare_environment()
    context = rclpy.Context()
    rclpy.init(args=[], context=context)
    node, executor = Node("vendor", context=context), SingleThreadedExecutor(context=context)
    start(node)
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        executor.shutdown()
        thread.join(timeout=5)
        node.destroy_node()
        rclpy.shutdown(context=context)


def heard(text: str = "rgb8; jpeg compressed bgr8") -> PicturesFact:
    """Of a camera whose pictures say that their format is `text`."""

    def start(node: Node) -> None:
        publisher = node.create_publisher(
            CompressedImage, f"/{NAME}/{picture_topic('front', SPEC)}", offered(SPEC)
        )
        random = np.random.default_rng(1)

        def publish() -> None:
            data = bytes(encode_image(random.integers(0, 255, (96, 96, 3), np.uint8)).data)
            publisher.publish(CompressedImage(format=text, data=data))

        node.create_timer(EVERY_S, publish)

    with publishing(start):
        [fact], _ = topics.listen(NAME, {"front": SPEC}, {}, {}, seconds=2.0)
    return fact


def test_every_picture_counts_also_where_not_every_one_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who listens for long would read that a camera is slow which is not."""
    monkeypatch.setattr(topics, "LOOKED_AT", 3)
    fact = heard()
    assert fact.distinct == 3, "no more are decoded"
    assert fact.count > 3
