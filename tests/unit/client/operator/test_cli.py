"""`rosa operator` without ROS: it is offered, says what a robot waits for in words, and what it needs to run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rosa_client.operator.robot_view import RobotView
from rosa_client.operator_cli import _audit_line, _lines, _record
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
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_rosa_offers_the_operator_also_where_there_is_no_ros() -> None:
    assert "operator" in rosa_without_ros("--help").stdout
    asked = rosa_without_ros("operator", "list")
    assert asked.returncode == 2
    assert "needs ROS 2" in asked.stderr


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
        "  decide: resume | retry | return_to_safe_state | abort",
    ]
    assert _record(view, 100.1)["alert"]["choices"] == ["resume", "retry", "return_to_safe_state", "abort"]


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
