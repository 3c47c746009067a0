"""One robot over ROS 2 as an operator needs it: its topics update a `RobotView`, its services take decisions.

Used by the panel (`operator_node.py`) and by the shell (`rosa operator`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rclpy.client import Client
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rosa_interfaces.msg import (
    ArmCommand,
    ArmStatus,
    Decision,
    OperatorAlert,
    OperatorAudit,
    RobotStatus,
)
from rosa_interfaces.srv import OperatorDecision, ReleaseEmergencyStop
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from rosa_client.motion.emergency_stop import STOPPED
from rosa_client.nodes.base.qos import AUDITS, LATEST
from rosa_client.operator.choices import DECIDE, RELEASE, STOP, Click
from rosa_client.operator.robot_view import PlacedArm, RobotView, natural
from rosa_client.operator.shape import TOPIC, Zone, read_shape
from rosa_contract.errors import ConfigError

STATUS = "robot_status"
# Either topic reveals a robot: one whose runtime is down still has an arm to stop.
KNOWN_BY = {STATUS: "rosa_interfaces/msg/RobotStatus", "arm_status": "rosa_interfaces/msg/ArmStatus"}
STOP_ALL = "/emergency_stop"
ANSWER_S = 5.0  # a service that runs answers within milliseconds

# Called once with (accepted, what to tell the operator).
Answered = Callable[[bool, str], None]


def robots_seen(node: Node) -> list[str]:
    """Namespaces in which a runtime or an arm publishes its status, in natural order."""
    found = set()
    for name, types in node.get_topic_names_and_types():
        namespace, _, topic = name.rpartition("/")
        if KNOWN_BY.get(topic) in types and node.count_publishers(name) > 0:
            found.add(namespace)
    return natural(sorted(found))


class RobotFeed:
    """Subscriptions and clients of one robot. All callbacks run in the node's executor."""

    def __init__(self, node: Node, namespace: str, drawn: bool = False) -> None:
        """`drawn`: also listen to what is drawn: the robot's own shape, and the path of the chunk that plays."""
        self.view = RobotView(namespace, time.monotonic())
        self._node = node
        self._arms: list[PlacedArm] = []
        self.zones: list[Zone] = []  # corners of its workspaces
        self._waiting: list[tuple[float, Any, Answered, Any]] = []
        view = self.view
        listened: list[tuple[Any, str, Callable[[float, Any], None], QoSProfile]] = [
            (RobotStatus, STATUS, view.hear_status, LATEST),
            (OperatorAlert, "operator_alert", view.hear_alert, LATEST),
            (OperatorAudit, "operator_audit", view.hear_audit, AUDITS),
            (ArmStatus, "arm_status", view.hear_arm, QoSProfile(depth=10)),
            (Decision, "decisions", view.hear_decision, QoSProfile(depth=50)),
        ]
        if drawn:
            listened.append((ArmCommand, "arm_command", self._on_command, QoSProfile(depth=50)))
            listened.append((String, TOPIC, self._on_shape, LATEST))
        # Before the subscriptions, on purpose: see `ready`.
        self._decide: Client[Any, Any] = node.create_client(
            OperatorDecision, f"{namespace}/runtime_node/operator_decision"
        )
        self._stop: Client[Any, Any] = node.create_client(Trigger, f"{namespace}/arm_node/emergency_stop")
        self._release: Client[Any, Any] = node.create_client(
            ReleaseEmergencyStop, f"{namespace}/arm_node/release_emergency_stop"
        )
        self._subscriptions = [
            node.create_subscription(kind, f"{namespace}/{topic}", _timed(hear), qos)
            for kind, topic, hear, qos in listened
        ]
        self._stop_topic = node.create_publisher(Bool, f"{namespace}/emergency_stop", QoSProfile(depth=10))

    def destroy(self) -> None:
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        for client in (self._decide, self._stop, self._release):
            self._node.destroy_client(client)
        self._node.destroy_publisher(self._stop_topic)

    def ready(self, kind: str) -> bool:
        """Whether the service for this kind of click is available.

        A service that is seen may not have seen its client yet: it would do what it is asked, and drop its answer after
        0.1 s. Who subscribes is told to a node in the order in which it was made, so a message of that node says that
        the client is known there as well. A stop waits for nothing.
        """
        client, heard = {
            DECIDE: (self._decide, self.view.status is not None),
            STOP: (self._stop, True),
            RELEASE: (self._release, self.view.arm is not None),
        }[kind]
        return heard and bool(client.service_is_ready())

    def ask(self, click: Click, decided_by: str, why: str, answered: Answered) -> None:
        """Call the robot's service. `answered` is called exactly once; at once when the service is not available."""
        if click.kind == STOP:
            self._stop_topic.publish(Bool(data=True))  # works before the service is discovered
            self._call(self._stop, Trigger.Request(), "arm node", answered)
        elif click.kind == RELEASE:
            request = ReleaseEmergencyStop.Request(decided_by=decided_by, why=why)
            self._call(self._release, request, "arm node", answered)
        else:
            decision = OperatorDecision.Request(
                alert_id=click.alert_id, choice=click.choice, decided_by=decided_by, why=why
            )
            self._call(self._decide, decision, "runtime node", answered)

    def check_answers(self, now_s: float) -> None:
        """Give up on services that did not answer in time; call it regularly."""
        late = [entry for entry in self._waiting if now_s > entry[0]]
        for entry in late:
            self._waiting.remove(entry)
            entry[1].cancel()
            silence = f"no answer within {ANSWER_S:g} s"
            if entry[3] is self._stop and self._says_stopped(now_s):
                entry[2](True, f"latched, as the arm says; {silence}")
            else:
                entry[2](False, silence)

    def _says_stopped(self, now_s: float) -> bool:
        """Whether the arm node says by itself, and now, that the stop is latched and nothing else is wrong."""
        view = self.view
        well = view.arm is not None and view.arm.fault in ("", STOPPED.reason)
        return well and view.stopped and not view.arm_silent_for_s(now_s)

    def _call(self, client: Any, request: Any, who: str, answered: Answered) -> None:
        if not client.service_is_ready():
            sent = "sent, but not confirmed: " if client is self._stop else ""
            answered(False, f"{sent}the {who} of {self.view.label} does not answer; is it running?")
            return
        future = client.call_async(request)
        entry = (time.monotonic() + ANSWER_S, future, answered, client)
        self._waiting.append(entry)

        def done(_: Any) -> None:
            if entry not in self._waiting:
                return  # given up before
            self._waiting.remove(entry)
            answer = future.result()
            if isinstance(answer, Trigger.Response):
                answered(answer.success, answer.message)
            else:
                answered(answer.accepted, answer.reason)

        future.add_done_callback(done)

    def _on_shape(self, now_s: float, message: String) -> None:
        try:
            drawn = read_shape(message.data, f"{self.view.namespace}/{TOPIC}")
        except ConfigError as error:
            self._node.get_logger().warning(f"{self.view.label} cannot be drawn: {error}")
            return
        self._arms = [(arm.joints, arm.chain) for arm in drawn]
        self.zones = [arm.zone for arm in drawn if arm.zone is not None]

    def _on_command(self, now_s: float, message: ArmCommand) -> None:
        if message.kind == ArmCommand.PLAY:
            self.view.hear_chunk(now_s, message.chunk, self._arms)


def _timed(hear: Callable[[float, Any], None]) -> Callable[[Any], None]:
    """A subscription callback that adds the time of arrival."""
    return lambda message: hear(time.monotonic(), message)
