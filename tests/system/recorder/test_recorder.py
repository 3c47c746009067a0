"""The recorder as a real process: what was said before it came is in the bag, and a SIGKILL takes nothing out of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
import yaml
from mcap.reader import make_reader
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosa_interfaces.msg import Call, Decision, OperatorAlert, OperatorAudit
from std_msgs.msg import Bool, String

from rosa_client.recording.bag import finish, mend, read

LATEST = QoSProfile(depth=50, durability=DurabilityPolicy.TRANSIENT_LOCAL)
WAIT_S = 20.0
TOLD = ("plan", "news", "noise")


@pytest.fixture
def robots() -> Iterator[Node]:
    """A node that speaks for two robots."""
    rclpy.init()
    node = Node("robots")
    try:
        yield node
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts a recorder of a namespace, which writes `tmp_path`/run.mcap."""
    started = []

    def start(namespace: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "rosa_client.nodes.robot.recorder_node",
            "--ros-args",
            "-r",
            f"__ns:={namespace}",
        ]
        command += ["-p", f"path:={tmp_path / 'run.mcap'}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def until_heard(*publishers: Any) -> None:
    end_s = time.monotonic() + WAIT_S
    while not all(publisher.get_subscription_count() for publisher in publishers):
        assert time.monotonic() < end_s, "the recorder did not find its topics"
        time.sleep(0.02)


def until_taken(*publishers: Any) -> None:
    """All that these have said is with the recorder's DDS."""
    for publisher in publishers:
        assert publisher.wait_for_all_acked(Duration(seconds=WAIT_S)), "the recorder has not got all of it"


def recorded(tmp_path: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for entry in read(tmp_path / "run.mcap", lambda topic: topic not in ("/rosout", "/parameter_events")):
        found.setdefault(entry.topic, []).append(entry.message)
    return found


def test_what_was_said_before_the_recorder_came_is_in_the_bag(
    robots: Node, recorder: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Two robots: an alert, the decisions about it, and a fault that was on all along."""
    said = []
    for name in ("left", "right"):
        for kind, topic in (
            (OperatorAlert, "operator_alert"),
            (OperatorAudit, "operator_audit"),
            (String, "fault"),
        ):
            said.append(robots.create_publisher(kind, f"/{name}/{topic}", LATEST))
        alert, audit, fault = said[-3:]
        alert.publish(OperatorAlert(robot=name, id=3, active=True, cause="arm_fault"))
        for who in ("first", "second"):
            audit.publish(OperatorAudit(robot=name, alert_id=3, decided_by=who))
        fault.publish(String(data="server_killed"))
    process = recorder("/")
    until_heard(*said)
    until_taken(*said)
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT_S) == 0
    found = recorded(tmp_path)
    for name in ("left", "right"):
        assert [alert.cause for alert in found[f"/{name}/operator_alert"]] == ["arm_fault"]
        assert [audit.decided_by for audit in found[f"/{name}/operator_audit"]] == ["first", "second"]
        assert [fault.data for fault in found[f"/{name}/fault"]] == ["server_killed"]


def test_what_was_said_just_before_the_end_is_in_the_bag(
    robots: Node, recorder: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    decisions = robots.create_publisher(Decision, "/robot/decisions", 100)
    process = recorder("/robot")
    until_heard(decisions)
    for number in range(100):
        decisions.publish(Decision(action="done", reason=str(number)))
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT_S) == 0
    assert len(recorded(tmp_path)["/robot/decisions"]) == 100


def test_what_has_come_is_in_the_bag_also_where_the_end_leaves_no_time(robots: Node, tmp_path: Path) -> None:
    """As where the machine stands still after the Ctrl-C: the recorder finds its time over, and its queue full."""
    decisions = robots.create_publisher(Decision, "/robot/decisions", 100)
    main = "from rosa_client.nodes.robot import recorder_node; recorder_node.LINGER_S = 0.0; recorder_node.main()"
    given = ["--ros-args", "-r", "__ns:=/robot", "-p", f"path:={tmp_path / 'run.mcap'}"]
    process = subprocess.Popen([sys.executable, "-c", main, *given])
    try:
        until_heard(decisions)
        for number in range(100):
            decisions.publish(Decision(action="done", reason=str(number)))
        until_taken(decisions)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
    assert [one.reason for one in recorded(tmp_path)["/robot/decisions"]] == [str(n) for n in range(100)]


def test_a_killed_recorder_leaves_a_bag_that_can_be_read(
    robots: Node, recorder: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    decisions = robots.create_publisher(Decision, "/robot/decisions", 10)
    calls = robots.create_publisher(Call, "/robot/calls", 10)
    stop = robots.create_publisher(Bool, "/emergency_stop", 10)  # of all robots: not in the robot's namespace
    process = recorder("/robot")
    until_heard(decisions, calls, stop)
    for number in range(100):
        decisions.publish(Decision(action="discard", reason=str(number)))
        calls.publish(Call(request_id=number, ending=Call.IN_TIME))
        time.sleep(0.005)
    stop.publish(Bool(data=True))
    until_taken(decisions, calls, stop)
    # It keeps nothing to itself for long.
    end_s = time.monotonic() + WAIT_S
    while sum(map(len, recorded(tmp_path).values())) < 201:
        assert time.monotonic() < end_s, "what was heard is not in the file"
        time.sleep(0.05)
    process.kill()
    process.wait(WAIT_S)
    found = recorded(tmp_path)
    assert [decision.reason for decision in found["/robot/decisions"]] == [str(n) for n in range(100)]
    assert [call.request_id for call in found["/robot/calls"]] == list(range(100))
    assert [message.data for message in found["/emergency_stop"]] == [True]
    whole = tmp_path / "whole.mcap"
    count = mend(tmp_path / "run.mcap", whole)
    with whole.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None and summary.statistics is not None
    assert summary.statistics.message_count == count == len(list(read(whole))) >= 201
    assert finish(tmp_path / "run.mcap"), "in place too"
    assert (tmp_path / "run.mcap").read_bytes() == whole.read_bytes()
    assert not finish(tmp_path / "run.mcap"), "it is whole now"


def test_a_bag_says_which_topics_were_latched(
    robots: Node, recorder: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    """So that `ros2 bag play` latches them again."""
    weak = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    said = [
        robots.create_publisher(String, "/robot/plan", LATEST),
        robots.create_publisher(String, "/robot/news", 10),
        robots.create_publisher(String, "/robot/noise", weak),
    ]
    process = recorder("/robot")
    until_heard(*said)
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT_S) == 0
    with (tmp_path / "run.mcap").open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    offered = {
        channel.topic: yaml.safe_load(channel.metadata["offered_qos_profiles"])
        for channel in summary.channels.values()
    }
    found = {
        topic: [(one["reliability"], one["durability"]) for one in offered[f"/robot/{topic}"]]
        for topic in TOLD
    }
    # Numbers of rmw_qos_profile_t.
    assert found == {"plan": [(1, 1)], "news": [(1, 2)], "noise": [(2, 2)]}


def test_a_publisher_that_comes_later_and_promises_less_is_recorded_too(
    robots: Node, recorder: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    careful = robots.create_publisher(String, "/robot/fault", LATEST)
    process = recorder("/robot")
    until_heard(careful)
    careless = robots.create_publisher(
        String, "/robot/fault", QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    )
    until_heard(careless, careful)
    for publisher in (careful, careless):
        publisher.publish(String(data=publisher.qos_profile.reliability.name))
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT_S) == 0
    counts = Counter(message.data for message in recorded(tmp_path)["/robot/fault"])
    assert counts == {"RELIABLE": 1, "BEST_EFFORT": 1}
