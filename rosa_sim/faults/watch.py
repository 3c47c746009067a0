"""Records what a robot publishes, as any subscriber of its topics could, with the time of arrival."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rosa_interfaces.msg import ArmCommand, ArmStatus, Call, Decision, OperatorAlert
from sensor_msgs.msg import JointState

from rosa_client.nodes.base.qos import LATEST


@dataclass(frozen=True)
class WatchedDecision:
    """A decision of the runtime."""

    seen_s: float
    action: str
    cause: str
    component: str = ""


@dataclass(frozen=True)
class Alerted:
    """An alert was raised (`active`) or settled."""

    seen_s: float
    number: int
    cause: str
    active: bool


@dataclass(frozen=True)
class ArmSeen:
    """A status of the arm."""

    seen_s: float
    state: int
    fault: str = ""
    cut_short: str = ""
    emergency_stop: bool = False


@dataclass(frozen=True)
class Played:
    """An order to play a chunk; `stamp_s` is the sender's."""

    seen_s: float
    stamp_s: float
    order: tuple[int, int]  # epoch, number


@dataclass(frozen=True)
class Called:
    """A call of a component ended; `stamp_s` is the sender's."""

    seen_s: float
    stamp_s: float
    component: str
    request_id: int
    ending: str
    duration_ms: float
    slo_ms: float


@dataclass
class WatchedEvents:
    """Everything since `clear`, in order of arrival."""

    decisions: list[WatchedDecision] = field(default_factory=list)
    alerts: list[Alerted] = field(default_factory=list)
    arm: list[ArmSeen] = field(default_factory=list)
    plays: list[Played] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    joints: list[tuple[float, tuple[float, ...]]] = field(default_factory=list)  # (seen_s, rad)


class FaultWatch:
    """Subscribes on a node that its owner spins."""

    def __init__(self, node: Node) -> None:
        self.events = WatchedEvents()
        many = QoSProfile(depth=100)
        listen = node.create_subscription
        self._subscriptions = [
            listen(Decision, "decisions", self._on_decision, many),
            listen(OperatorAlert, "operator_alert", self._on_alert, LATEST),
            listen(ArmStatus, "arm_status", self._on_arm, many),
            listen(ArmCommand, "arm_command", self._on_command, many),
            listen(Call, "calls", self._on_call, many),
            listen(JointState, "joint_states", self._on_joints, qos_profile_sensor_data),
        ]

    def clear(self) -> None:
        """Forget everything; what arrives next belongs to a new story."""
        self.events = WatchedEvents()

    def _on_decision(self, message: Decision) -> None:
        seen = WatchedDecision(time.monotonic(), message.action, message.cause, message.component)
        self.events.decisions.append(seen)

    def _on_alert(self, message: OperatorAlert) -> None:
        self.events.alerts.append(Alerted(time.monotonic(), message.id, message.cause, message.active))

    def _on_arm(self, message: ArmStatus) -> None:
        seen = ArmSeen(
            time.monotonic(), message.state, message.fault, message.cut_short, message.emergency_stop
        )
        if not self.events.arm or _without_time(self.events.arm[-1]) != _without_time(seen):
            self.events.arm.append(seen)

    def _on_command(self, message: ArmCommand) -> None:
        if message.kind == ArmCommand.PLAY:
            order = (int(message.epoch), int(message.seq))
            self.events.plays.append(Played(time.monotonic(), _seconds(message.header.stamp), order))

    def _on_call(self, message: Call) -> None:
        self.events.calls.append(
            Called(
                time.monotonic(),
                _seconds(message.header.stamp),
                message.component,
                message.request_id,
                message.ending,
                message.duration_ms,
                message.slo_ms,
            )
        )

    def _on_joints(self, message: JointState) -> None:
        self.events.joints.append((time.monotonic(), tuple(message.position)))


def _without_time(seen: ArmSeen) -> tuple[Any, ...]:
    return seen.state, seen.fault, seen.cut_short, seen.emergency_stop


def _seconds(stamp: Any) -> float:
    return float(stamp.sec) + float(stamp.nanosec) / 1e9
