"""A 6-joint arm with 640x480 cameras and steps of the tool presses a button, through server, worker and ROS 2 nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_sim.press.nodes import pressed_through_nodes

pytestmark = pytest.mark.slow


def test_the_button_is_pressed_through_the_nodes_and_the_monitor_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    went = pressed_through_nodes(1, tmp_path, given_up_s=120.0, patient_ms=20_000.0)
    log = "".join(path.read_text() for path in sorted((tmp_path / "logs").glob("*.log")))
    assert went["outcome"] == "done", (went, log[-3000:])
    assert went["rounds"] >= 3, went
