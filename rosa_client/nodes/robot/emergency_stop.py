"""The ROS side of an arm's emergency stop: two topics and a service to press it, one service to release it.

A part of the arm node, so that it works without runtime, server and operator panel. Pressing asks no questions;
releasing needs a name and a reason, and is published on `operator_audit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosa_interfaces.msg import OperatorAudit
from rosa_interfaces.srv import ReleaseEmergencyStop
from std_msgs.msg import Bool, Header
from std_srvs.srv import Trigger

from rosa_client.motion.emergency_stop import EmergencyStop
from rosa_client.motion.refusal import Refusal
from rosa_client.nodes.base.qos import AUDITS

TOPICS = ("emergency_stop", "/emergency_stop")  # of this robot, of all robots
# A reliable subscription does not match a best-effort publisher, and a best-effort one may lose a message: use both.
BUTTONS = tuple(
    QoSProfile(depth=10, reliability=reliability)
    for reliability in (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT)
)
RELEASE = "release_emergency_stop"  # OperatorAudit.choice

InLoop = Callable[[Callable[[], Any]], tuple[Any, str]]
Submit = Callable[[Callable[[], Any]], Any]
Press = Callable[[str], Any]
Release = Callable[[str, str], Refusal | None]


class EmergencyStopPort:
    """Connects the latch with ROS for as long as the node lives, whether or not an arm is connected meanwhile."""

    def __init__(self, node: Node, latch: EmergencyStop) -> None:
        self._node = node
        self._robot = node.get_namespace().strip("/")
        self._latch = latch
        self._arm: tuple[Press, Release, Submit, InLoop] | None = None
        self._audits = node.create_publisher(OperatorAudit, "operator_audit", AUDITS)
        for topic in TOPICS:
            for qos in BUTTONS:
                node.create_subscription(Bool, topic, self._on_button(topic), qos)
        node.create_service(Trigger, "~/emergency_stop", self._on_press)
        node.create_service(ReleaseEmergencyStop, "~/release_emergency_stop", self._on_release)

    def connect(self, robot: str, press: Press, release: Release, submit: Submit, in_loop: InLoop) -> None:
        """From now on a press stops the arm: `press` and `release` are its own, of the same latch.

        `in_loop` runs a call between two control periods and returns its result or what went wrong; `submit` does not
        wait.
        """
        self._robot = robot
        self._arm = press, release, submit, in_loop

    def disconnect(self) -> None:
        """The arm is gone; the latch stays as it is."""
        self._arm = None

    def _on_button(self, topic: str) -> Callable[[Bool], None]:
        def pressed(message: Bool) -> None:
            if message.data:  # false releases nothing
                self._press(f"topic {topic}")

        return pressed

    def _press(self, source: str) -> None:
        """Latched at once and never withdrawn; an arm that is blocked in its driver stops as soon as it can."""
        if self._latch.press(source):
            self._node.get_logger().error(
                f"emergency stop pressed by {source}; the arm holds until it is released"
            )
        if self._arm is not None:
            press, _, submit, _ = self._arm
            submit(lambda: press(source))

    def _on_press(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._press("service")
        problem = self._arm[3](lambda: None)[1] if self._arm is not None else ""
        response.success = not problem
        response.message = (
            problem or "latched until `rosa operator release`, or the service release_emergency_stop"
        )
        return response

    def _on_release(
        self, request: ReleaseEmergencyStop.Request, response: ReleaseEmergencyStop.Response
    ) -> ReleaseEmergencyStop.Response:
        who, why = request.decided_by, request.why
        if self._arm is None:
            refused, problem = self._latch.release(who, why), ""
        else:
            _, release, _, in_loop = self._arm
            refused, problem = in_loop(lambda: release(who, why))
        response.reason = problem or (refused.reason if refused is not None else "")
        response.accepted = not response.reason
        outcome = f"refused: {response.reason}" if response.reason else "released"
        self._node.get_logger().warning(f"emergency stop {outcome} ({who or 'nobody'}: {why or 'no reason'})")
        self._audits.publish(
            OperatorAudit(
                header=Header(stamp=self._node.get_clock().now().to_msg()),
                robot=self._robot,
                alert_id=0,
                choice=RELEASE,
                decided_by=who,
                why=why,
                accepted=response.accepted,
                reason=response.reason,
            )
        )
        return response
