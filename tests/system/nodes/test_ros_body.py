"""What the runtime node says over real topics: orders, signs of life, calls, alerts and audited decisions."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rosa_interfaces.msg import ArmCommand, ArmStatus, Call, OperatorAlert, OperatorAudit
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import String

from rosa_client.loops.reporting import audit_of
from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.nodes.base.managed import ManagedNode
from rosa_client.nodes.base.qos import PROMPTS
from rosa_client.nodes.robot.ros_body import AUDITS, COMMANDS, LATEST, RosBody
from rosa_client.nodes.robot.status_messages import diagnostics
from rosa_client.runtime.commands import KEEP, OPEN, Alert, CallEnded, Hold, Inputs, MoveTo, Send
from rosa_client.runtime.runtime import RobotRuntime
from rosa_contract.config.factory import load_factory
from rosa_contract.config.robot import load_robot
from rosa_contract.wire.images import encode_image

CONFIGS = Path(__file__).parents[3] / "configs"
ROBOT = load_robot(CONFIGS / "robots" / "panda.yaml")
TASK = load_factory(CONFIGS / "pick_place.yaml").tasks["pick_and_place"]
LINK = SimpleNamespace(ready=True, reason="", endpoint="tcp://nowhere")
TOPICS = {
    "arm_command": (ArmCommand, COMMANDS),
    "calls": (Call, COMMANDS),
    "operator_alert": (OperatorAlert, LATEST),
    "operator_audit": (OperatorAudit, AUDITS),
}
PATIENCE_S = 20.0


class Bench:
    """A body under test, and a node that hears all it says and stands in for the arm."""

    def __init__(self) -> None:
        self.node = LifecycleNode("runtime_node", namespace="bench")
        self.body = RosBody(self.node, "bench", "pick_and_place", TASK, ROBOT)
        self.ear = Node("ear", namespace="bench")
        self.heard: dict[str, list[Any]] = defaultdict(list)
        for topic, (kind, qos) in TOPICS.items():
            self.ear.create_subscription(kind, topic, self.heard[topic].append, qos)
        self.arm = self.ear.create_publisher(ArmStatus, "arm_status", 10)
        self.until(lambda: self.body.arm_command.get_subscription_count() > 0)
        self.until(lambda: self.body.calls.get_subscription_count() > 0)
        self.until(lambda: self.arm.get_subscription_count() > 0)

    def until(self, condition: Callable[[], bool]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end_s, "the condition did not come true"
            rclpy.spin_once(self.node, timeout_sec=0.01)
            rclpy.spin_once(self.ear, timeout_sec=0.01)

    def next(self, topic: str) -> Any:
        """The oldest message on this topic that was not looked at yet."""
        self.until(lambda: bool(self.heard[topic]))
        return self.heard[topic].pop(0)


@pytest.fixture
def ros() -> Iterator[None]:
    prepare_environment()
    rclpy.init()
    yield
    rclpy.shutdown()


@pytest.fixture
def bench(ros: None) -> Iterator[Bench]:
    it = Bench()
    yield it
    it.node.destroy_node()
    it.ear.destroy_node()


def test_a_managed_node_waits_for_no_events_of_its_publishers(ros: None) -> None:
    """They would be half of what its executor goes through at every wake-up. Subscriptions still tell of QoS."""
    node = ManagedNode("managed", {})
    try:
        node.create_publisher(String, "said", 1)
        assert {"/parameter_events", "/said"} <= {publisher.topic_name for publisher in node.publishers}
        assert not [handler for publisher in node.publishers for handler in publisher.event_handlers]
        assert node.create_subscription(String, "heard", print, 1).event_handlers
    finally:
        node.destroy_node()


@pytest.mark.parametrize("pose", ["home", "safe", "clear", "drop"])
@pytest.mark.parametrize("gripper", [KEEP, OPEN])
def test_a_move_names_joints_and_keeps_or_opens_the_gripper(bench: Bench, pose: str, gripper: str) -> None:
    bench.body.act(MoveTo(1, pose, gripper))
    order = bench.next("arm_command")
    assert (order.kind, order.seq) == (ArmCommand.MOVE_TO, 1)
    assert list(order.joint_target_rad) == list(ROBOT.pose(pose))
    opens = order.gripper_width_m == math.inf
    assert opens if gripper == OPEN else math.isnan(order.gripper_width_m)


def test_while_the_core_lets_the_arm_move_it_gets_a_sign_of_life(bench: Bench) -> None:
    core = RobotRuntime("bench", TASK, ROBOT)
    bench.body.act(MoveTo(7, "safe"))
    moving = SimpleNamespace(lets_move=True, **_shown(core))
    for period in range(20):  # 0.2 s
        bench.body.report(moving, 100.0 + period / 100, LINK)
    bench.body.report(SimpleNamespace(lets_move=False, **_shown(core)), 101.0, LINK)
    bench.body.act(Hold(8))
    orders = [bench.next("arm_command")]
    while orders[-1].seq < 8:
        orders.append(bench.next("arm_command"))
    assert [orders[0].kind, orders[-1].kind] == [ArmCommand.MOVE_TO, ArmCommand.HOLD]
    alive = orders[1:-1]
    assert {(one.kind, one.seq, one.epoch) for one in alive} == {(ArmCommand.ALIVE, 7, orders[0].epoch)}
    assert 6 <= len(alive) <= 8, "one every 25 ms"


def _shown(core: RobotRuntime) -> dict[str, Any]:
    names = ("name", "state", "alert", "last_decision", "counters", "attempt", "calls", "plan")
    return {name: getattr(core, name) for name in names}


def test_the_end_of_a_call_is_told(bench: Bench) -> None:
    bench.body.publish(CallEnded("system1", 12, "missed", 501.5, 500.0))
    call = bench.next("calls")
    assert (call.component, call.request_id, call.ending) == ("system1", 12, Call.MISSED)
    assert (call.duration_ms, call.slo_ms) == (501.5, 500.0)


def test_each_component_s_prompt_and_the_plan_are_told_when_they_change(bench: Bench) -> None:
    """For the recording; whoever comes late gets them too."""
    core = RobotRuntime("bench", TASK, ROBOT)
    core.mission.planning.hear("push the red block")
    for request, (component, prompt) in enumerate(
        [("system2", "sort"), ("system1", "push"), ("system1", "push"), ("system1", "lift")]
    ):
        bench.body.publish(Send(request, component, 100.0, prompt))
    shown = SimpleNamespace(lets_move=False, **_shown(core))
    for period in range(3):
        bench.body.report(shown, 100.0 + period, LINK)
    shown.plan = None
    bench.body.report(shown, 103.0, LINK)
    prompts: list[KeyValue] = []
    plans: list[String] = []
    bench.ear.create_subscription(KeyValue, "prompts", prompts.append, PROMPTS)
    bench.ear.create_subscription(String, "plan", plans.append, LATEST)
    bench.until(lambda: len(prompts) == 3 and bool(plans))
    assert [(one.key, one.value) for one in prompts] == [
        ("system2", "sort"),
        ("system1", "push"),
        ("system1", "lift"),
    ]
    assert [one.data for one in plans] == [""], "it was forgotten"


def test_an_alert_names_its_robot(bench: Bench) -> None:
    bench.body.publish(Alert(3, "arm_fault", "reflex", ("resume", "abort")))
    alert = bench.next("operator_alert")
    assert (alert.robot, alert.id, alert.active, alert.choices) == ("bench", 3, True, ["resume", "abort"])


def test_decisions_are_on_the_record_for_those_who_come_late(bench: Bench) -> None:
    for accepted, reason in ((False, "choice: expected one of resume, got 'dance'"), (True, "")):
        bench.body.audit(audit_of(3, "resume", "anna", "it is clear", accepted, reason))
    late: list[OperatorAudit] = []
    bench.ear.create_subscription(OperatorAudit, "operator_audit", late.append, AUDITS)
    bench.until(lambda: len(late) == 2)
    assert [(one.accepted, one.reason) for one in late] == [
        (False, "choice: expected one of resume, got 'dance'"),
        (True, ""),
    ]
    assert {(one.robot, one.alert_id, one.decided_by, one.why) for one in late} == {
        ("bench", 3, "anna", "it is clear")
    }


def test_what_the_arm_says_is_felt(bench: Bench) -> None:
    bench.body.act(Hold(1))
    epoch = bench.next("arm_command").epoch
    said = ArmStatus(last_epoch=epoch, last_seq=1, cut_short="no sign of life", emergency_stop=True)
    bench.arm.publish(said)
    bench.until(lambda: bench.body.sense().arm_sequence == 1)
    felt = bench.body.sense()
    assert (felt.arm_cut_short, felt.emergency_stop, felt.arm_fault) == ("no sign of life", True, "")


def test_a_camera_of_another_size_is_an_alert_with_both_sizes_not_a_missed_deadline(bench: Bench) -> None:
    """The server would refuse each request, and the robot would report that it missed its deadlines."""
    picture = encode_image(np.zeros((720, 1280, 3), np.uint8))
    camera = bench.ear.create_publisher(CompressedImage, "front/image_raw/compressed", 5)
    message = CompressedImage(format="rgb8; jpeg compressed bgr8", data=bytes(picture.data))

    def felt() -> bool:
        camera.publish(message)
        return bool(bench.body.sense().sensor_faults)

    bench.until(felt)
    core = RobotRuntime("bench", TASK, ROBOT)
    core.start(0.0)
    core.tick(0.1, bench.body.sense())
    [alarm] = [one for one in core.tick(3.2, bench.body.sense()) if isinstance(one, Alert)]
    bench.body.publish(alarm)
    alert = bench.next("operator_alert")
    assert alert.cause == "sensor_fault"
    assert alert.reason == "front cannot be used: pictures are 1280x720 px, the robot file says 96x96"


def test_of_an_order_of_another_sender_only_the_emergency_stop_concerns_the_robot(bench: Bench) -> None:
    said = ArmStatus(last_epoch=1, last_seq=99, cut_short="no sign of life", emergency_stop=True, fault="no")
    bench.arm.publish(said)
    bench.until(lambda: bench.body.sense().emergency_stop)
    felt = bench.body.sense()
    assert (felt.arm_sequence, felt.arm_cut_short, felt.arm_fault) == (0, "", "")


def test_diagnostics_say_of_every_component_how_it_keeps_its_deadline() -> None:
    core = RobotRuntime("bench", TASK, ROBOT)
    core.start(0.0)
    calls = core.calls["monitor"]
    for request_id in (1, 2):
        calls.send(request_id, 10.0 * request_id)
        calls.miss(10.0 * request_id + 1.5)
    server, task, system1, monitor = diagnostics(core, LINK)
    assert [one.name for one in (server, task, system1)] == ["bench: server", "bench: task", "bench: system1"]
    assert (monitor.level, monitor.message) == (DiagnosticStatus.WARN, "2 misses in a row")
    values = {entry.key: entry.value for entry in monitor.values}
    assert (values["slo_ms"], values["missed"], values["consecutive_missed"]) == ("1000", "2", "2")


def test_diagnostics_say_that_a_human_is_waited_for() -> None:
    core = RobotRuntime("bench", TASK, ROBOT)
    core.start(0.0)
    core.tick(61.0, Inputs({}, False, "the cable is cut"))
    task = diagnostics(core, LINK)[1]
    assert task.level == DiagnosticStatus.ERROR
    assert "waits for a human: not ready within 60 s: the cable is cut (not_ready)" in task.message
