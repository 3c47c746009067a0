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

from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.nodes.qos import AUDITS

TOPICS = ("emergency_stop", "/emergency_stop")  # of this robot, of all robots
# A reliable subscription does not match a best-effort publisher, and a best-effort one may lose a message: use both.
BUTTONS = tuple(
    QoSProfile(depth=10, reliability=reliability)
    for reliability in (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT)
)
RELEASE = "release_emergency_stop"  # OperatorAudit.choice

InLoop = Callable[[Callable[[], Any]], tuple[Any, str]]


class EmergencyStopPort:
    """Connects the player's latch with ROS.

    `in_loop` runs a call between two control periods and returns its result or what went wrong; `submit` does not wait.
    """

    def __init__(
        self,
        node: Node,
        robot: str,
        player: ChunkPlayer,
        submit: Callable[[Callable[[], Any]], Any],
        in_loop: InLoop,
    ) -> None:
        self._node = node
        self._robot = robot
        self._player = player
        self._submit = submit
        self._in_loop = in_loop
        self._audits = node.create_publisher(OperatorAudit, "operator_audit", AUDITS)
        for topic in TOPICS:
            for qos in BUTTONS:
                node.create_subscription(Bool, topic, self._on_button(topic), qos)
        node.create_service(Trigger, "~/emergency_stop", self._on_press)
        node.create_service(ReleaseEmergencyStop, "~/release_emergency_stop", self._on_release)

    def _on_button(self, topic: str) -> Callable[[Bool], None]:
        def pressed(message: Bool) -> None:
            if message.data:  # false releases nothing
                self._submit(lambda: self._press(f"topic {topic}"))

        return pressed

    def _press(self, source: str) -> None:
        """Runs in the control thread."""
        if self._player.press_emergency_stop(source):
            self._node.get_logger().error(
                f"emergency stop pressed by {source}; the arm holds until it is released"
            )

    def _on_press(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        # Never withdrawn: an arm that is blocked stops as soon as it can.
        self._submit(lambda: self._press("service"))
        problem = self._in_loop(lambda: None)[1]
        response.success = not problem
        response.message = problem or "latched; release it with release_emergency_stop"
        return response

    def _on_release(
        self, request: ReleaseEmergencyStop.Request, response: ReleaseEmergencyStop.Response
    ) -> ReleaseEmergencyStop.Response:
        who, why = request.decided_by, request.why
        refused, problem = self._in_loop(lambda: self._player.release_emergency_stop(who, why))
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
