"""The robot as the core's loop sees it, over ROS 2 topics: arm commands out, sensors and arm status in."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, KeyValue
from rclpy.client import Client
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile
from rosa_interfaces.msg import (
    ActionChunk,
    ArmCommand,
    ArmStatus,
    Call,
    OperatorAlert,
    OperatorAudit,
    RobotStatus,
)
from rosa_interfaces.msg import Decision as DecisionMessage
from std_msgs.msg import Header, String
from std_srvs.srv import Trigger

from rosa_client.connection.link import GatewayLink
from rosa_client.motion.arm_orders import PlayerState
from rosa_client.motion.refusal import Refusal
from rosa_client.nodes.base.qos import AUDITS, LATEST, PROMPTS
from rosa_client.nodes.robot.arm_door import ArmDoor
from rosa_client.nodes.robot.link_watch import LinkWatch
from rosa_client.nodes.robot.sensors import Sensors
from rosa_client.nodes.robot.status_messages import decision_message, diagnostics, robot_status
from rosa_client.runtime.commands import (
    HOLDING,
    MOVING,
    OPEN,
    PLAYING,
    RETURNING,
    Alert,
    CallEnded,
    ClearAlert,
    Command,
    Decision,
    Inputs,
    MoveTo,
    Order,
    Play,
    RecoverArm,
    Send,
    TaskEnded,
)
from rosa_client.runtime.runtime import RobotRuntime
from rosa_client.sensing.grasp import Grasp
from rosa_contract.clock import MonotonicClock
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.tasks import SYSTEM1, Task
from rosa_contract.fallbacks import FALLBACK_NAMES
from rosa_contract.wire.messages import Array
from rosa_contract.wire.status import Audit

COMMANDS = QoSProfile(depth=50)
ALIVE_EVERY_S = 0.025  # without it the arm holds after 0.1 s
STATUS_EVERY_S = 0.1
EXPECTED = ("operator", "recovered", "asked_again")  # causes that are no reason for a warning
DIAGNOSTICS_EVERY_S = 1.0
ARM_STATES = {
    PlayerState.HOLDING.value: HOLDING,
    PlayerState.PLAYING.value: PLAYING,
    PlayerState.MOVING.value: MOVING,
    PlayerState.RETURNING.value: RETURNING,
}


class RosBody:
    """Publishes what the core decides and collects its inputs."""

    def __init__(self, node: LifecycleNode, name: str, task_name: str, task: Task, robot: RobotSpec) -> None:
        self._node = node
        self._name = name
        self._task_name = task_name
        self._model = task.components[SYSTEM1].model
        self._robot = robot
        self._watch = LinkWatch()
        self._epoch = time.time_ns()
        self._sensors = Sensors(node, robot)
        self._arm: ArmStatus | None = None
        self._clock = MonotonicClock()
        self._grasp = Grasp(tuple(robot.grippers.values()), robot.velocity_scale)
        self._last_seq = 0
        self._next_alive_s = 0.0
        self._alert = OperatorAlert(robot=name)
        self._ended: Callable[[str, str], None] = lambda outcome, reason: None
        self._next_status_s = 0.0
        self._next_diagnostics_s = 0.0
        self._last_state = ""
        self._said: dict[str, str] = {}  # the last prompt of each component, and the last plan, as published
        self.arm_command = node.create_publisher(ArmCommand, "arm_command", COMMANDS)
        self.decisions = node.create_publisher(DecisionMessage, "decisions", COMMANDS)
        self.calls = node.create_publisher(Call, "calls", COMMANDS)
        self.audits = node.create_publisher(OperatorAudit, "operator_audit", AUDITS)
        self.alerts = node.create_publisher(OperatorAlert, "operator_alert", LATEST)
        self.prompts = node.create_publisher(KeyValue, "prompts", PROMPTS)
        self.plan = node.create_publisher(String, "plan", LATEST)
        self.status = node.create_publisher(RobotStatus, "robot_status", LATEST)
        self.diagnostics = node.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        self._recover: Client[Any, Any] = node.create_client(Trigger, "arm_node/recover")
        self._arm_door = ArmDoor(node)
        node.create_subscription(ArmStatus, "arm_status", self._on_arm, QoSProfile(depth=10))

    def use(self, task_name: str, task: Task) -> None:
        """The robot has another task; between two cores."""
        self._task_name = task_name
        self._model = task.components[SYSTEM1].model

    def begin(self) -> None:
        """A new core counts its orders from 1; a greater epoch makes the arm prefer them to its predecessor's."""
        heard = int(self._arm.last_epoch) if self._arm is not None else 0
        self._epoch = max(time.time_ns(), heard + 1)  # also when the system clock was set back
        self._last_seq = 0

    def when_ended(self, call: Callable[[str, str], None]) -> None:
        """`call(outcome, reason)` when the task ends, from the loop's thread."""
        self._ended = call

    # -- Body -------------------------------------------------------------------------------------------------------

    def sense(self) -> Inputs:
        arm = self._arm
        mine = arm is not None and arm.last_epoch == self._epoch
        return Inputs(
            sensor_stamp_s=self._sensors.stamps(),
            link_ready=False,
            arm_state=ARM_STATES.get(arm.state, HOLDING) if arm is not None else HOLDING,
            arm_sequence=int(arm.last_seq) if arm is not None and mine else 0,
            arm_fault=arm.fault if arm is not None and mine else "",
            arm_recovers=arm is not None and mine and bool(arm.fault) and self._recover.service_is_ready(),
            arm_cut_short=arm.cut_short if arm is not None and mine else "",
            emergency_stop=bool(arm.emergency_stop) if arm is not None else False,
            gripper_holds=self._grasp.holds(self._sensors.gripper_widths_m(), self._clock.now_s()),
            sensor_faults=self._sensors.faults(),
        )

    def observe(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return self._sensors.newest()

    def act(self, command: Order) -> None:
        self._grasp.order(command, self._clock.now_s())
        self._last_seq = command.sequence
        message = ArmCommand(epoch=self._epoch, seq=command.sequence)
        message.header.stamp = self._node.get_clock().now().to_msg()
        if isinstance(command, Play):
            message.kind = ArmCommand.PLAY
            message.skip_s, message.execute_s = command.skip_s, command.duration_s
            names = self._robot.action_names
            message.chunk = ActionChunk(
                model=self._model,
                step_s=command.step_s,
                horizon=len(command.actions),
                names=list(names),
                data=np.asarray(command.actions, np.float32).ravel().tolist(),
            )
        elif isinstance(command, MoveTo):
            message.kind = ArmCommand.MOVE_TO
            message.reason = f"to {command.pose}"
            message.joint_target_rad = list(self._robot.pose(command.pose))
            message.gripper_width_m = math.inf if command.gripper == OPEN else math.nan
        else:
            message.kind = ArmCommand.HOLD
        self._publish(self.arm_command, message)

    def publish(self, message: Command) -> None:
        stamp = self._node.get_clock().now().to_msg()
        if isinstance(message, Decision):
            self._log(message)
            self._publish(self.decisions, decision_message(message, stamp))
        elif isinstance(message, Alert):
            self._alert = OperatorAlert(
                header=Header(stamp=stamp),
                robot=self._name,
                id=message.alert_id,
                active=True,
                cause=message.cause,
                reason=message.reason,
                choices=list(message.choices),
            )
            self._publish(self.alerts, self._alert)
        elif isinstance(message, RecoverArm):
            self._recover.call_async(Trigger.Request()).add_done_callback(self._on_recovery)
        elif isinstance(message, ClearAlert):
            self._alert.header.stamp, self._alert.active, self._alert.choices = stamp, False, []
            self._publish(self.alerts, self._alert)
        elif isinstance(message, CallEnded):
            self._publish(
                self.calls,
                Call(
                    header=Header(stamp=stamp),
                    component=message.component,
                    request_id=message.request_id,
                    ending=message.ending,
                    duration_ms=message.duration_ms,
                    slo_ms=message.slo_ms,
                ),
            )
        elif isinstance(message, Send):
            if self._is_new(f"prompt of {message.component}", message.prompt):
                self._publish(self.prompts, KeyValue(key=message.component, value=message.prompt))
        elif isinstance(message, TaskEnded):
            self._ended(message.outcome, message.reason)

    def audit(self, audit: Audit) -> None:
        """Publish an operator's decision for the record, accepted or not, and log it."""
        self._publish(
            self.audits,
            OperatorAudit(
                header=Header(stamp=self._node.get_clock().now().to_msg()),
                robot=self._name,
                alert_id=audit.alert_id,
                choice=audit.choice,
                decided_by=audit.decided_by,
                why=audit.why,
                accepted=audit.accepted,
                reason=audit.reason,
            ),
        )
        verb = "decided" if audit.accepted else f"was refused ({audit.reason})"
        who, why = audit.decided_by or "somebody", audit.why or "not said"
        self._node.get_logger().info(f"operator {who} {verb}: {audit.choice}; why: {why}")

    def ask_arm(
        self, choice: str, decided_by: str, why: str, answered: Callable[[Refusal | None], None]
    ) -> None:
        """Ask the arm node, as the operator's panel does; it judges and records by itself."""
        self._arm_door.ask(choice, decided_by, why, answered)

    def report(self, core: RobotRuntime, now_s: float, link: GatewayLink) -> None:
        if core.lets_move and now_s >= self._next_alive_s:
            self._next_alive_s = now_s + ALIVE_EVERY_S
            self._publish(
                self.arm_command, ArmCommand(kind=ArmCommand.ALIVE, epoch=self._epoch, seq=self._last_seq)
            )
        if self._is_new("plan", core.plan or ""):
            self._publish(self.plan, String(data=core.plan or ""))
        changed = core.state.value != self._last_state
        if changed or now_s >= self._next_status_s:
            self._last_state = core.state.value
            self._next_status_s = now_s + STATUS_EVERY_S
            stamp = self._node.get_clock().now().to_msg()
            self._publish(self.status, robot_status(core, self._task_name, link.ready, stamp))
        if now_s >= self._next_diagnostics_s:
            self._next_diagnostics_s = now_s + DIAGNOSTICS_EVERY_S
            array = DiagnosticArray(status=diagnostics(core, link))
            array.header.stamp = self._node.get_clock().now().to_msg()
            self._publish(self.diagnostics, array)
            if text := self._watch.news(now_s, link.endpoint, link.ready, link.reason):
                self._node.get_logger().warning(text)

    def _is_new(self, name: str, text: str) -> bool:
        """Whether a text is another than the one before; texts are published when they change."""
        before, self._said[name] = self._said.get(name), text
        return text != before

    def farewell(self, core: RobotRuntime, link: GatewayLink) -> None:
        """The loop has ended: the state in which it left the task, for whoever hears or asks later."""
        self._next_status_s = self._next_diagnostics_s = -math.inf
        self.report(core, self._clock.now_s(), link)

    def _publish(self, publisher: Any, message: Any) -> None:
        """Publish, unless a signal has shut ROS down while the loop still ends its task."""
        try:
            publisher.publish(message)
        except Exception:
            if self._node.context.ok():
                raise

    # -- messages ---------------------------------------------------------------------------------------------------

    def _on_arm(self, message: ArmStatus) -> None:
        self._arm = message

    def _on_recovery(self, future: Any) -> None:
        answer = future.result()
        if answer is not None and not answer.success:
            self._node.get_logger().error(f"the arm cannot recover: {answer.message}")

    def _log(self, decision: Decision) -> None:
        logger = self._node.get_logger()
        where = f" [{decision.component}]" if decision.component else ""
        text = f"{decision.action}{where}: {decision.reason} ({decision.cause})"
        if decision.action == "execute":
            logger.debug(text)
        elif decision.action in FALLBACK_NAMES and decision.cause not in EXPECTED:
            logger.warning(text)
        else:
            logger.info(text)
