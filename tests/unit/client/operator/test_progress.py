"""What `rosa run` says of a running task: each round once, what is unusual at once, an alert with its answer."""

from __future__ import annotations

from rosa_client.operator.progress import ShownProgress, ShownStep
from tests.unit.client.operator.stage import alert, component, robot, status, waiting

FIRST = ShownStep("executing", 1, 1)


def test_the_line_says_attempt_round_state_and_latencies() -> None:
    view = robot()
    view.hear_status(100.0, status("executing", component(last_ms=62.4, missed=1), component("monitor")))
    line = ShownProgress("panda0").now(ShownStep("executing", 7, 2), view)
    assert line == "panda0: attempt 2, round 7, executing; system1 62 of 500 ms, 1 missed"


def test_a_lost_server_is_said() -> None:
    view = robot()
    view.hear_status(100.0, status("holding", connected=False))
    assert "no server" in ShownProgress("panda0").now(FIRST, view)


def test_a_round_is_told_once_and_its_ordinary_states_are_not() -> None:
    progress, view = ShownProgress("panda0"), robot()
    assert len(progress.lines(ShownStep("inferring", 1, 1), view)) == 1
    assert progress.lines(ShownStep("executing", 1, 1), view) == []
    assert len(progress.lines(ShownStep("inferring", 2, 1), view)) == 1
    assert progress.lines(ShownStep("inferring", 2, 1), view) == []


def test_an_unusual_state_is_told_when_it_begins_and_when_it_ends() -> None:
    progress, view = ShownProgress("panda0"), robot()
    told = [
        progress.lines(ShownStep(state, 1, 1), view)
        for state in ("executing", "holding", "holding", "inferring")
    ]
    assert [len(lines) for lines in told] == [1, 1, 0, 1]


def test_an_alert_comes_once_with_the_command_that_answers_it() -> None:
    progress, view = ShownProgress("panda0"), waiting(number=4)
    said = progress.alerts(view)
    assert said[0] == "panda0 calls a human: slo_missed: 3 in a row"
    assert "rosa operator decide panda0 CHOICE" in said[1]
    assert "resume | retry" in said[1]
    assert progress.alerts(view) == []
    view.hear_alert(101.0, alert(4, active=False))
    view.hear_alert(102.0, alert(5))
    assert progress.alerts(view), "the next alert is told again"
