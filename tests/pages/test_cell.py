"""The pages for whoever stands beside a robot: one server and one simulated Panda, which go on from page to page."""

from __future__ import annotations

import re

from tests.reader import Reader

RUN = "rosa run pick_and_place --robot panda0"
# A task that goes on for long enough to be stopped once more.
SLOWLY = """
ros2 service call /panda0/arm_node/reset_scene rosa_interfaces/srv/ResetScene "{seed: 7}"
ros2 param set /panda0/arm_node velocity_scale 0.1
rosa operator stop panda0
"""


def calls_a_person(reader: Reader) -> int:
    """A task begins while the emergency stop is latched, which is released then; the number of the alert."""
    reader.type(SLOWLY)
    reader.start(RUN, "calls a human")
    printed = reader.type('rosa operator release panda0 --why "the cell is clear"\nrosa operator list\n')
    [number] = re.findall(r"ALERT (\d+)", printed)
    return int(number)


def test_run_a_task(beside_a_cell: Reader) -> None:
    printed = beside_a_cell.do("run_a_task")
    assert "done: the monitor says done" in printed
    assert "/panda0/run_task [rosa_interfaces/action/RunTask]" in printed
    assert "state: inferring" in printed and "outcome: done" in printed


def test_metrics(beside_a_cell: Reader) -> None:
    printed = beside_a_cell.do("metrics")
    assert '"ready": true' in printed and '"robots": ["panda0"]' in printed
    assert 'rosa_requests_total{component="system1",status="ok"}' in printed


def test_the_operator(beside_a_cell: Reader) -> None:
    beside_a_cell.names["273614"] = str(
        calls_a_person(beside_a_cell) + 1
    )  # the page stops the robot once more
    printed = beside_a_cell.do("operator")
    assert "resume: accepted" in printed and printed.count("emergency stop: accepted") >= 3
    assert "panda0  release_emergency_stop by " in printed
    assert "until `rosa operator release`" in printed
    assert "accepted: true" in printed and "success: true" in printed
    beside_a_cell.end("rosa run ")  # Ctrl-C cancels the task


def test_be_told_of_alerts(beside_a_cell: Reader) -> None:
    told = beside_a_cell.folder / "told"
    program = beside_a_cell.folder / "bin" / "notify-send"
    program.write_text(f'#!/bin/sh\necho "$@ $ROSA_EVENT $ROSA_ROBOT" >> {told}\n')
    program.chmod(0o755)
    beside_a_cell.do("alerts")
    calls_a_person(beside_a_cell)
    beside_a_cell.type("for _ in $(seq 100); do test -s told && exit 0; sleep 0.1; done; exit 1\n")
    assert "--urgency critical ROSA a robot waits alert_opened panda0" in told.read_text()
    beside_a_cell.end("rosa run ")


def test_local_safety(beside_a_cell: Reader) -> None:
    printed = beside_a_cell.do("local_safety")
    assert "Set parameter successful" in printed
    assert printed.count("success: true") == 2
    assert "release emergency stop: accepted" in printed
    assert "reason: no emergency stop is latched" in printed  # it was released the other way
