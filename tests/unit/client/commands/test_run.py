"""`rosa run` without ROS: what it prints on a terminal and elsewhere, and how a task's end becomes an exit status."""

from __future__ import annotations

import io
import json

import pytest

from rosa_client.commands import run
from rosa_client.commands.run import CANCELLED, DONE, FAILED, Screen, _end
from rosa_client.nodes.console.task_client import Ended
from rosa_server.cli import main
from tests.unit.client.commands.test_operator import rosa_without_ros


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.slow
def test_where_there_is_no_ros_it_is_offered_and_says_what_it_needs() -> None:
    assert " run " in rosa_without_ros("--help").stdout
    asked = rosa_without_ros("run", "pick", "--robot", "panda0")
    assert asked.returncode == 2
    assert "needs ROS 2" in asked.stderr and "make setup" in asked.stderr


def test_a_terminal_has_one_line_that_changes_and_alerts_that_stay() -> None:
    terminal = Terminal()
    screen = Screen(terminal)
    screen.show("round 10, long", ["round 10, long"])
    screen.show("round 11", ["round 11", "calls a human"])
    assert terminal.getvalue().split("\r")[1] == "round 10, long"
    assert "calls a human\n" in terminal.getvalue()
    assert terminal.getvalue().endswith("\rround 11")
    assert terminal.getvalue().count("\n") == 1, "rounds replace each other"


def test_a_shorter_line_covers_the_longer_one_before_it() -> None:
    terminal = Terminal()
    screen = Screen(terminal)
    screen.show("a long line", [])
    screen.show("short", [])
    assert terminal.getvalue().endswith("\rshort      ")


def test_a_file_gets_lines_and_no_control_characters() -> None:
    file = io.StringIO()
    screen = Screen(file)
    screen.show("round 1", ["round 1"])
    screen.show("round 1, other figures", [])
    screen.keep("done")
    assert file.getvalue() == "round 1\ndone\n"


@pytest.mark.parametrize(
    ("outcome", "cancelled", "status"),
    [
        ("done", False, DONE),
        ("failed", False, FAILED),
        ("timed_out", False, FAILED),
        ("aborted", False, FAILED),
        ("canceled", True, CANCELLED),
    ],
)
def test_the_exit_status_says_how_the_task_ended(
    outcome: str, cancelled: bool, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = Ended(cancelled, outcome, "because", 3, 1, 5, 2)
    assert _end(ended, True, Screen(io.StringIO())) == status
    assert json.loads(capsys.readouterr().out)["outcome"] == outcome


def test_the_statuses_are_five_different_ones() -> None:
    assert len({DONE, FAILED, run.REFUSED, run.NOBODY, CANCELLED}) == 5


def test_a_negative_timeout_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--timeout", "-1"])
    assert ended.value.code == 2
    assert "seconds from 0" in capsys.readouterr().err
