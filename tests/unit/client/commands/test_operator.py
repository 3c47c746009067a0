"""`rosa operator` without ROS: it is offered, says what a robot waits for in words, and what it needs to run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from rosa_client.commands import operator as command
from rosa_client.commands.operator import _audit_line, _lines, _record
from rosa_client.nodes.console.operator_client import OperatorClient
from rosa_client.operator.choices import Click
from rosa_client.operator.robot_view import OperatorError, RobotView
from rosa_server.cli import main
from tests.unit.client.operator.stage import arm, audit, component, robot, status, waiting

ROOT = Path(__file__).parents[4]
WITHOUT_ROS = """
import sys, importlib.abc
class No(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('rclpy', 'rosa_interfaces', 'std_msgs'):
            raise ImportError('no ROS here: ' + name)
sys.meta_path.insert(0, No())
from rosa_server.cli import main
sys.exit(main(sys.argv[1:]))
"""


def rosa_without_ros(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_ROS, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_rosa_offers_the_operator_also_where_there_is_no_ros() -> None:
    assert "operator" in rosa_without_ros("--help").stdout
    asked = rosa_without_ros("operator", "list")
    assert asked.returncode == 2
    assert "needs ROS 2" in asked.stderr and "make setup" in asked.stderr


def test_a_decision_needs_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["operator", "decide", "panda0", "resume"])
    assert "--why" in capsys.readouterr().err


def test_a_waiting_robot_is_listed_with_what_can_be_decided() -> None:
    view = waiting(100.0, number=3)
    view.hear_arm(100.0, arm())
    view.hear_status(100.0, status("waiting_for_human", component(last_ms=62, p99_ms=90, in_a_row=3)))
    assert _lines(view, 100.1) == [
        "panda0: pick, waiting_for_human, round 3, attempt 1",
        "  server up (in time); system1 62 of 500 ms, 3 missed (missing)",
        "  ALERT 3, slo_missed: 3 in a row",
        '  decide: rosa operator decide panda0 CHOICE --why "..."',
        "  CHOICE: resume | retry | return_to_safe_state | abort",
    ]
    assert _record(view, 100.1)["alert"]["choices"] == ["resume", "retry", "return_to_safe_state", "abort"]


def test_robots_that_vanish_leave_no_blank_line() -> None:
    assert command._listing([], 100.0) == "no robot is left"


class Vanishing:
    """Stands in for the client: one robot, then none, then Ctrl-C."""

    def __init__(self) -> None:
        self.left = [[Feed("panda0", True)], []]

    def find(self, wait_s: float, wanted: str = "") -> list[Feed]:
        return self.left[0]

    def present(self) -> list[Feed]:
        return self.left.pop(0)

    def spin(self, condition: Callable[[], Any], timeout_s: float) -> None:
        if not self.left:
            raise KeyboardInterrupt


def test_a_list_that_is_watched_comes_again_until_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_ros", lambda: nullcontext(Vanishing()))
    assert main(["operator", "list", "--watch"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("panda0: no status")
    assert printed[-1] == "no robot is left"
    assert "" not in printed


class TwoRobots:
    """Stands in for the client."""

    def __init__(self) -> None:
        self.feeds = {f"/{name}": Feed(name, True) for name in ("panda0", "panda1")}
        self.waited_for: list[str] = []

    def find(self, wait_s: float, wanted: str = "") -> list[Feed]:
        self.waited_for.append(wanted)
        return list(self.feeds.values())

    def must_know(self, namespace: str) -> None:
        if namespace not in self.feeds:
            raise OperatorError(f"no robot {namespace!r}")

    def feed(self, robot: str) -> Feed:
        return self.feeds[robot]


def test_one_robot_is_waited_for_and_listed_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    floor = TwoRobots()
    monkeypatch.setattr(command, "_ros", lambda: nullcontext(floor))
    assert main(["operator", "list", "panda1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("panda1: ") and "panda0" not in out
    assert main(["operator", "list"]) == 0
    out = capsys.readouterr().out
    assert "panda0: " in out and "panda1: " in out
    assert floor.waited_for == ["/panda1", ""]
    assert main(["operator", "list", "panda7"]) == 2
    assert "no robot '/panda7'" in capsys.readouterr().err


def test_a_latched_stop_is_listed_with_the_command_that_releases_it() -> None:
    view = robot(100.0)
    view.hear_arm(100.0, arm(stopped=True))
    assert '  EMERGENCY STOP is latched: rosa operator release panda0 --why "..."' in _lines(view, 100.1)


def test_silence_is_listed() -> None:
    view = robot(100.0)
    said = " ".join(_lines(view, 107.0))
    assert "no sign of life for 7 s" in said
    assert "the arm has been silent for 7 s" in said
    assert "no status; is its runtime node active?" in _lines(RobotView("/panda0", 0.0), 0.5)[0]


def test_the_audit_says_who_when_what_and_why() -> None:
    view = robot()
    view.hear_audit(100.0, audit("resume", by="ben", accepted=False, reason="too late"))
    line = _audit_line(view.audits[0], view.label)
    assert line.endswith('panda0  alert 1: resume by ben: refused, too late; why: "because"')
    assert line.startswith("19"), "1970, by the robot's clock"


class Feed:
    """One robot of a fleet, as `rosa operator stop all` finds it."""

    def __init__(self, name: str, arm_is_there: bool) -> None:
        self.view = RobotView(f"/{name}", 0.0)
        self.arm_is_there = arm_is_there

    def ready(self, kind: str) -> bool:
        return self.arm_is_there


class Fleet:
    """Stands in for the client. An arm that is not there is waited for, and then the client raises."""

    def __init__(self, *feeds: Feed, latecomers: tuple[Feed, ...] = ()) -> None:
        """`latecomers`: found one by one, each only after all before it were asked."""
        self.feeds = list(feeds)
        self.latecomers = list(latecomers)
        self.asked: list[str] = []

    def spin(self, condition: Callable[[], Any], timeout_s: float) -> bool:
        if self.latecomers:
            self.feeds.append(self.latecomers.pop(0))
        return bool(condition())

    def present(self) -> list[Feed]:
        return list(self.feeds)

    def stop_all(self, wait_s: float) -> None:
        self.asked.append("all")

    def find(self, wait_s: float) -> list[Feed]:
        return list(self.feeds)

    def ask(self, feed: Feed, *_: Any) -> tuple[bool, str]:
        self.asked.append(feed.view.label)
        if not feed.arm_is_there:
            raise OperatorError(f"{feed.view.label} is there, but does not take 'emergency_stop'")
        return True, "latched"


def test_a_stop_of_all_reaches_every_robot_although_one_has_lost_its_arm_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet(Feed("panda0", False), Feed("panda1", True), Feed("panda2", True))
    monkeypatch.setattr(command, "_ros", lambda: nullcontext(fleet))
    assert main(["operator", "stop", "all"]) == 2, "one could not be asked"
    assert fleet.asked == ["all", "panda1", "panda2", "panda0"], "nobody waits for the one that is gone"
    told = capsys.readouterr()
    assert "panda1: emergency stop: accepted (latched)" in told.out
    assert "panda2: emergency stop: accepted (latched)" in told.out
    assert "panda0 is there, but does not take 'emergency_stop'" in told.err


def test_a_stop_of_all_asks_robots_that_are_found_after_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late = Feed("panda1", True), Feed("panda2", True)
    fleet = Fleet(Feed("panda0", True), latecomers=late)
    monkeypatch.setattr(command, "_ros", lambda: nullcontext(fleet))
    assert main(["operator", "stop", "all"]) == 0
    assert fleet.asked == ["all", "panda0", "panda1", "panda2"], "each once"
    assert capsys.readouterr().out.count("accepted (latched)") == 3


class Waiting:
    """Stands in for the client: one robot waits at alert 3, whatever its operator has read of."""

    def __init__(self) -> None:
        self.view = waiting(100.0, number=3)
        self.asked: list[int] = []

    def feed(self, robot: str) -> Waiting:
        return self

    def open_alert(self, feed: Waiting, wait_s: float) -> Any:
        return self.view.alert

    def ask(self, feed: Waiting, click: Click, *_: Any) -> tuple[bool, str]:
        self.asked.append(click.alert_id)
        return (True, "") if click.alert_id == 3 else (False, "this alert is over")


@pytest.mark.parametrize("number", ["-1", str(1 << 64)])
def test_an_alert_that_cannot_be_is_refused_as_an_argument(
    number: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_ros", lambda: nullcontext(Waiting()))
    with pytest.raises(SystemExit) as ended:
        main(["operator", "decide", "panda0", "resume", "--why", "x", "--alert", number])
    assert ended.value.code == 2
    assert "expected the number of an alert" in capsys.readouterr().err


def test_a_decision_says_which_alert_it_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Waiting()
    monkeypatch.setattr(command, "_ros", lambda: nullcontext(client))
    decide = ["operator", "decide", "panda0", "return_to_safe_state", "--why", "because"]
    assert main(decide) == 0
    assert main([*decide, "--alert", "2"]) == 1
    assert client.asked == [3, 2]
    told = capsys.readouterr()
    assert told.out == "panda0: alert 3 (slo_missed): return to safe state: accepted\n"
    assert told.err == "panda0: alert 2: return to safe state: refused: this alert is over\n"


class Floor:
    """The ROS node of the client: arms begin to listen one after the other. `told` is who heard each press."""

    def __init__(self) -> None:
        self.listening = 0
        self.told: list[int] = []
        self.tell: Callable[[], None] = lambda: None

    def create_publisher(self, *_: Any) -> Floor:
        return self

    def create_timer(self, period_s: float, call: Callable[[], None], clock: Any) -> None:
        self.tell = call

    def get_subscription_count(self) -> int:
        return self.listening

    def publish(self, message: Any) -> None:
        assert message.data
        self.told.append(self.listening)


def test_a_stop_of_all_is_said_again_to_arms_that_are_found_later() -> None:
    client: Any = object.__new__(OperatorClient)
    floor = Floor()

    def spin(condition: Callable[[], Any], timeout_s: float) -> bool:
        """Five periods of the timer; the second arm is found after the first."""
        for listening in (0, 0, 1, 1, 2):
            floor.listening = listening
            floor.tell()
        return bool(condition())

    client.node, client.spin = floor, spin
    client.stop_all(5.0)
    assert floor.told == [1, 2]
