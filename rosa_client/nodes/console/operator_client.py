"""The ROS client behind `rosa operator`: finds robots and calls their services, one at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rclpy
from rclpy.exceptions import NameValidationException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Bool

from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.nodes.console.robot_feed import STOP_ALL, RobotFeed, robots_seen
from rosa_client.operator.choices import STOP, Click
from rosa_client.operator.robot_view import AlertView, OperatorError, namespace_of
from rosa_client.ros.clock import steady_timer
from rosa_client.ros.ending import ends_in_time

SETTLE_S = 1.5  # after this long without a change all robots are found and their latched topics received
TELL_EVERY_S = 0.05  # how often to check for arms that have been found since
LONGEST_ANSWER_S = 60.0  # `RobotFeed` gives up long before


@contextmanager
def connected() -> Iterator[OperatorClient]:
    """A client for one command, with ROS initialised around it."""
    prepare_environment()
    rclpy.init(args=[], signal_handler_options=rclpy.SignalHandlerOptions.NO)
    client = OperatorClient()
    try:
        yield client
    finally:
        with ends_in_time():
            client.close()
            rclpy.try_shutdown()


class OperatorClient:
    """Spins its own node while it waits. Not thread-safe."""

    def __init__(self) -> None:
        self.node = Node(f"rosa_operator_{os.getpid()}")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._feeds: dict[str, RobotFeed] = {}

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()

    def spin(self, condition: Callable[[], Any], timeout_s: float) -> bool:
        """Spin until the condition holds; returns whether it did in time."""
        until_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > until_s:
                return False
            self._executor.spin_once(timeout_sec=0.05)
        return True

    def feed(self, robot: str) -> RobotFeed:
        """The robot of that name, also before it is discovered: an emergency stop must not wait for that."""
        namespace = namespace_of(robot)
        if namespace not in self._feeds:
            try:
                self._feeds[namespace] = RobotFeed(self.node, namespace)
            except NameValidationException as error:
                raise OperatorError(f"{robot!r} cannot be a robot's name: {error}") from None
        return self._feeds[namespace]

    def find(self, wait_s: float, wanted: str = "", settle_s: float = SETTLE_S) -> list[RobotFeed]:
        """Every robot, once no more of them have appeared for `settle_s`. Raises `OperatorError` when there is none.

        `wanted`: wait for the robot in this namespace, up to `wait_s`.
        """
        if not self.spin(self._seen, wait_s):
            raise OperatorError(self._nobody(wait_s))
        self._settle(wait_s, wanted, settle_s)
        return self.present()

    def present(self) -> list[RobotFeed]:
        """Every robot that is discovered now."""
        return [self.feed(name) for name in self._seen()]

    def _settle(self, wait_s: float, wanted: str = "", settle_s: float = SETTLE_S) -> None:
        graph: tuple[list[str], int, int] = ([], 0, 0)
        changed_s = time.monotonic()

        def settled() -> bool:
            nonlocal graph, changed_s
            now_s = time.monotonic()
            names = self._seen()
            feeds = [self.feed(name) for name in names]  # subscribes on first use
            # Decisions are latched one by one, and may come one by one.
            audits = sum(len(feed.view.audits) for feed in feeds)
            newest = (names, len(self.node.get_topic_names_and_types()), audits)
            if newest != graph:
                graph, changed_s = newest, now_s
            spoke = all(feed.view.status is not None and feed.view.arm is not None for feed in feeds)
            return now_s - changed_s > settle_s and spoke and (not wanted or wanted in names)

        self.spin(settled, wait_s)

    def open_alert(self, feed: RobotFeed, wait_s: float) -> AlertView:
        """The alert that waits for a decision. Raises `OperatorError` when there is none."""
        view = feed.view
        self.spin(lambda: view.alert is not None, wait_s)
        if view.alert is not None:
            return view.alert
        self.must_know(view.namespace)
        state = view.status.state if view.status is not None else "not active"
        raise OperatorError(f"{view.label} waits for no decision: it is {state} (looked for {wait_s:g} s)")

    def ask(self, feed: RobotFeed, click: Click, by: str, why: str, wait_s: float) -> tuple[bool, str]:
        """(accepted, the robot's reason). Raises `OperatorError` when its node is not there."""
        answers: list[tuple[bool, str]] = []
        if not self.spin(lambda: feed.ready(click.kind), wait_s):
            if click.kind == STOP:  # subscribers of the topic get it as well
                feed.ask(click, by, why, lambda accepted, reason: None)
            self.must_know(feed.view.namespace)
            what = click.choice or click.kind
            raise OperatorError(
                f"{feed.view.label} is there, but does not take {what!r}; is it being started?"
            )
        feed.ask(click, by, why, lambda accepted, reason: answers.append((accepted, reason)))

        def answered() -> bool:
            feed.check_answers(time.monotonic())
            return bool(answers)

        self.spin(answered, LONGEST_ANSWER_S)
        return answers[0]

    def stop_all(self, wait_s: float) -> None:
        """Stop every arm that is discovered at once, without listing robots first; arms discovered later, then."""
        topic = self.node.create_publisher(Bool, STOP_ALL, QoSProfile(depth=10))
        reached = 0

        def tell() -> None:
            nonlocal reached
            listening = topic.get_subscription_count()
            if listening > reached:
                topic.publish(Bool(data=True))
            reached = listening

        steady_timer(self.node, TELL_EVERY_S, tell)
        self.spin(lambda: reached, wait_s)

    def must_know(self, namespace: str) -> None:
        """Raises `OperatorError` when there is no such robot, and names those that there are."""
        if namespace not in self._seen():
            self._settle(2 * SETTLE_S)  # a slow discovery may still find it
        seen = self._seen()
        if not seen:
            raise OperatorError(self._nobody(None))
        if namespace not in seen:
            known = ", ".join(name.strip("/") for name in seen)
            raise OperatorError(f"no robot {namespace.strip('/')!r}; found: {known}")

    def _seen(self) -> list[str]:
        return robots_seen(self.node)

    def _nobody(self, wait_s: float | None) -> str:
        nodes = [name for name in self.node.get_node_names() if name != self.node.get_name()]
        others = f"{len(nodes)} other ROS nodes" if nodes else "no other ROS node"
        domain = os.environ.get("ROS_DOMAIN_ID", "0, its default")
        reach = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET, its default")
        within = f" within {wait_s:g} s" if wait_s is not None else ""
        return (
            f"no robot found{within}; seen: {others}. Is a bring-up running, with the same ROS_DOMAIN_ID "
            f"(here {domain}) and a ROS_AUTOMATIC_DISCOVERY_RANGE that reaches it (here {reach})?"
        )
