"""What is checked in every state: whether the sensors deliver."""

from __future__ import annotations

import pytest

from rosa_client.runtime.commands import Alert, Hold
from tests.unit.client.runtime.stage import Stage


@pytest.mark.parametrize("sensor", ["front", "joint_state"])
def test_a_silent_sensor_stops_the_arm_and_then_calls_a_human(sensor: str) -> None:
    stage = Stage()
    stage.start()
    stage.answer(stage.send_of("system1"))
    stage.silent.add(sensor)
    stage.run_until(Hold, limit_s=1)
    assert ("stop_and_resend", "sensor_stale") in stage.actions_taken
    alert = stage.run_until(Alert, limit_s=5)
    assert isinstance(alert, Alert)
    assert sensor in alert.reason


def test_a_sensor_that_comes_back_in_time_clears_by_itself() -> None:
    stage = Stage()
    stage.start()
    stage.answer(stage.send_of("system1"))
    stage.silent.add("front")
    stage.run(1.5)
    stage.silent.clear()
    stage.answer(stage.send_of("system1"))
    assert not stage.of(Alert)
