"""A panel beside robots of different kinds draws each with the shape that it tells itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rosa_interfaces.msg import ActionChunk, ArmCommand, ArmStatus
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from rosa_client.motion.emergency_stop import STOPPED
from rosa_client.nodes.base.qos import LATEST
from rosa_client.nodes.console import robot_feed
from rosa_client.nodes.console.robot_feed import RobotFeed
from rosa_client.operator.choices import STOP, Click
from rosa_client.operator.shape import TOPIC, shape_text
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.kinematics.chain import Chain

CONFIGS = Path(__file__).parents[3] / "configs" / "robots"
PANDA = load_robot(CONFIGS / "panda.yaml")
assert PANDA.chain is not None
# The same joints with other links.
LONG = replace(PANDA, chain=replace(PANDA.chain, d_m=tuple(2 * d for d in PANDA.chain.d_m)))
PATIENCE_S = 20.0


class Stage:
    """A panel's node, and one that speaks for two robots."""

    def __init__(self) -> None:
        self.panel, self.robots = Node("panel"), Node("robots")
        self._executor = SingleThreadedExecutor()
        for node in (self.panel, self.robots):
            self._executor.add_node(node)

    def until(self, condition: Any) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end_s
            self._executor.spin_once(timeout_sec=0.02)

    def tell(self, name: str, text: str) -> Any:
        publisher = self.robots.create_publisher(String, f"/{name}/{TOPIC}", LATEST)
        publisher.publish(String(data=text))
        return publisher

    def play(self, name: str, feed: RobotFeed) -> Any:
        """The path that the panel draws for a chunk of the robot."""
        orders = self.robots.create_publisher(ArmCommand, f"/{name}/arm_command", 50)
        self.until(lambda: orders.get_subscription_count() > 0)
        rows = np.tile([*PANDA.home_rad, 0.04], (2, 1))
        chunk = ActionChunk(
            step_s=0.05, horizon=2, names=list(PANDA.action_names), data=rows.ravel().tolist()
        )
        orders.publish(ArmCommand(kind=ArmCommand.PLAY, epoch=1, seq=1, chunk=chunk))
        self.until(lambda: feed.view.path_m is not None)
        return feed.view.path_m[0, 0]

    def close(self) -> None:
        self._executor.shutdown()
        self.panel.destroy_node()
        self.robots.destroy_node()


@pytest.fixture
def stage() -> Iterator[Stage]:
    rclpy.init()
    one = Stage()
    yield one
    one.close()
    rclpy.shutdown()


def tool_of(spec: RobotSpec) -> Any:
    assert spec.chain is not None
    return Chain(spec.chain).tool(spec.home_rad)


def test_each_robot_is_drawn_with_its_own_chain(stage: Stage) -> None:
    kept = [stage.tell("short", shape_text(PANDA)), stage.tell("long", shape_text(LONG))]
    feeds = {name: RobotFeed(stage.panel, f"/{name}", drawn=True) for name in ("short", "long")}
    stage.until(lambda: all(feed.zones for feed in feeds.values()))
    assert np.allclose(stage.play("short", feeds["short"]), tool_of(PANDA), atol=1e-6)
    assert np.allclose(stage.play("long", feeds["long"]), tool_of(LONG), atol=1e-6)
    assert not np.allclose(tool_of(PANDA), tool_of(LONG), atol=0.1)
    assert len(kept) == 2


def test_a_robot_that_tells_nonsense_is_not_drawn_and_said_so(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    kept = stage.tell("odd", "chain: {legs: 4}")
    feed = RobotFeed(stage.panel, "/odd", drawn=True)
    said = ""

    def heard() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "odd cannot be drawn: /odd/robot_shape" in said

    stage.until(heard)
    assert not feed.zones and kept is not None


@pytest.mark.parametrize(
    ("latches", "fault"),
    [
        (True, ""),
        (True, STOPPED.reason),  # as of an order that came afterwards
        (True, "the arm driver has blocked the control loop for 2.0 s"),
        (False, ""),
    ],
)
def test_a_stop_whose_answer_is_lost_is_known_by_what_the_arm_says(
    stage: Stage, latches: bool, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop waits for nothing, so the arm node may not know whom to answer: it stops, and nobody hears of it."""
    monkeypatch.setattr(robot_feed, "ANSWER_S", 0.5)
    nobody = MutuallyExclusiveCallbackGroup()
    lost = stage.robots.create_service(Trigger, "/mute/arm_node/emergency_stop", print, callback_group=nobody)
    nobody.can_execute = lambda entity: False  # type: ignore[method-assign]
    status = stage.robots.create_publisher(ArmStatus, "/mute/arm_status", 10)
    said = ArmStatus()

    def on_press(_: Bool) -> None:
        said.emergency_stop, said.fault = latches, fault

    stage.robots.create_subscription(Bool, "/mute/emergency_stop", on_press, 10)
    stage.robots.create_timer(0.05, lambda: status.publish(said))
    feed = RobotFeed(stage.panel, "/mute")
    stage.until(lambda: feed.ready(STOP) and feed.view.arm is not None)
    answers: list[tuple[bool, str]] = []
    feed.ask(Click(STOP), "ada", "", lambda accepted, reason: answers.append((accepted, reason)))
    stage.until(lambda: (feed.view.stopped, feed.view.arm.fault) == (latches, fault))
    assert not answers

    def answered() -> bool:
        feed.check_answers(time.monotonic())
        return bool(answers)

    stage.until(answered)
    [(accepted, reason)] = answers
    assert accepted == (latches and "blocked" not in fault)
    assert ("latched" in reason) == accepted and "no answer within 0.5 s" in reason
    assert lost is not None
