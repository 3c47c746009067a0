"""Records every topic of one robot to an MCAP bag, for machines without rosbag2; in namespace `/`, of every robot.

Messages are taken as they come over the wire and written with the time of their arrival; each topic with the QoS that
it was offered with, so that `ros2 bag play` latches what was latched. New topics are found
meanwhile. A recorder that is killed loses what came within the last `FLUSH_EVERY_S`, and no more.
"""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import rclpy
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.exceptions import ParameterException
from rclpy.executors import SingleThreadedExecutor
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from rosa_client.nodes.base.parameters import Parameter, declare
from rosa_client.recording.bag import BagWriter, message_class
from rosa_client.recording.offered import offered_qos
from rosa_client.ros.clock import steady_timer
from rosa_client.ros.ending import ends_in_time

PARAMETERS = {
    "path": Parameter("", "the MCAP file to write"),
    "also": Parameter("", "topics outside of the robot's namespace to record, with commas between them"),
    "exclude": Parameter(".*/image_raw$", "topics not to record: pictures are recorded compressed"),
}
# Topics that are not in a robot's namespace.
EVERYBODY = ("/diagnostics", "/rosout", "/emergency_stop", "/tf", "/tf_static")
LOOK_EVERY_S = 0.1
FLUSH_EVERY_S = 0.2
LINGER_S = 0.3
DRAIN_S = 3.0  # the longest that it takes, at its end, what has come; robots that go on are never silent
EMPTY_LOOKS = 5  # more than it has timers
DEPTH = 200  # messages of one topic that may wait while the disk is slow


class RecorderError(Exception):
    """Recording is not possible; the text says why."""


class Recorder(Node):
    """One bag from start to `close`. It misses what was published before a topic was found, unless that is latched."""

    def __init__(self) -> None:
        super().__init__("recorder_node")
        declare(self, PARAMETERS)
        path = Path(self.get_parameter("path").value)
        self._exclude = re.compile(self.get_parameter("exclude").value)
        self._also = self.get_parameter("also").value.split(",")
        if not path.name:
            raise RecorderError("parameter path: expected the MCAP file to write, got nothing")
        self._bag = BagWriter(path)
        self._channels: dict[str, int | None] = {}  # None: cannot be recorded
        self._topics: dict[str, Any] = {}
        self._weaker: set[str] = set()  # topics with a publisher whose QoS is weaker than the subscription's
        # Setting the wall clock during the run must not reorder the recording.
        self._wall_ns = time.time_ns() - time.monotonic_ns()
        steady_timer(self, LOOK_EVERY_S, self._look)
        steady_timer(self, FLUSH_EVERY_S, self._bag.flush)
        self.get_logger().info(f"recording {self.get_namespace()} to {path}")

    def close(self) -> None:
        """Finish the bag with its summary and index."""
        self._bag.close()
        size_mb = self._bag.path.stat().st_size / 1e6
        recorded = sum(channel is not None for channel in self._channels.values())
        text = f"{self._bag.count} messages of {recorded} topics, {size_mb:.1f} MB in {self._bag.path}"
        self.get_logger().info(text)

    @property
    def count(self) -> int:
        """Messages in the bag."""
        return self._bag.count

    def give_up(self, error: OSError) -> str:
        """Let go of a bag that cannot be written any more; returns why, and what is left."""
        self._bag.abandon()
        return f"recording stopped: {self._bag.path}: {error.strerror or error}; what came before is in it"

    def _look(self) -> None:
        while self._weaker:
            self.destroy_subscription(self._topics.pop(self._weaker.pop()))
        inside = self.get_namespace().rstrip("/") + "/"
        for topic, types in self.get_topic_names_and_types():
            mine = topic.startswith(inside) or topic in EVERYBODY or topic in self._also
            wanted = mine and "/_" not in topic
            if wanted and topic not in self._topics and not self._exclude.fullmatch(topic):
                self._add(topic, types[0])

    def _add(self, topic: str, name: str) -> None:
        profiles = [info.qos_profile for info in self.get_publishers_info_by_topic(topic)]
        if not profiles:
            return
        if topic not in self._channels:
            self._channels[topic] = self._channel(topic, name, offered_qos(profiles))
        channel = self._channels[topic]
        if channel is None:
            return

        def keep(data: bytes) -> None:
            self._bag.add(channel, self._wall_ns + time.monotonic_ns(), data)

        # A subscription that asks for more than a publisher offers does not match it: ask for what all of them offer.
        # When a weaker publisher comes later, the subscription is made again.
        qos = QoSProfile(depth=DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
        if all(profile.reliability == ReliabilityPolicy.RELIABLE for profile in profiles):
            qos.reliability = ReliabilityPolicy.RELIABLE
        if all(profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for profile in profiles):
            qos.durability = DurabilityPolicy.TRANSIENT_LOCAL
        self._topics[topic] = self.create_subscription(
            message_class(name),
            topic,
            keep,
            qos,
            raw=True,
            event_callbacks=SubscriptionEventCallbacks(incompatible_qos=lambda _: self._weaker.add(topic)),
        )

    def _channel(self, topic: str, name: str, offered: str) -> int | None:
        try:
            message_class(name)
            return self._bag.channel(topic, name, offered)
        except (ImportError, AttributeError, FileNotFoundError) as error:
            self.get_logger().warning(f"{topic} is not recorded: {error}")
            return None


def drain(executor: SingleThreadedExecutor, recorder: Recorder) -> None:
    """Take what has come and waits: a machine that stands still at the end may have given no time for it."""
    until_s, empty = time.monotonic() + DRAIN_S, 0
    while empty < EMPTY_LOOKS and time.monotonic() < until_s:
        before = recorder.count
        executor.spin_once(timeout_sec=0.0)
        empty = 0 if recorder.count > before else empty + 1


def main() -> None:
    """Record until SIGINT or SIGTERM, and a little longer for messages that are still under way."""
    asked_s: list[float] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked_s.append(time.monotonic()))
    # rclpy's own handlers would end all subscriptions at once.
    rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    try:
        recorder = Recorder()
    except (RecorderError, OSError, ParameterException) as error:
        get_logger("recorder_node").fatal(str(error))
        rclpy.try_shutdown()
        sys.exit(2)
    executor = SingleThreadedExecutor()
    executor.add_node(recorder)
    full = ""
    try:
        while not asked_s or time.monotonic() - asked_s[0] < LINGER_S:
            executor.spin_once(timeout_sec=0.05)
        drain(executor, recorder)
        recorder.close()
    except OSError as error:  # such as a full disk; the robot goes on
        full = recorder.give_up(error)
        recorder.get_logger().error(full)
    with ends_in_time():
        executor.shutdown()
        recorder.destroy_node()
        rclpy.try_shutdown()
    if full:
        sys.exit(1)


if __name__ == "__main__":
    main()
