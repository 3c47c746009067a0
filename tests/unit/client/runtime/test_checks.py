"""What is checked in every state: whether the sensors deliver."""

from __future__ import annotations

import pytest

from rosa_client.runtime.commands import Alert, Decision, Hold
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


WRONG_SIZE = "pictures are 1280x720 px, the robot file says 640x480"


def test_a_sensor_that_cannot_be_used_is_named_soon_after_the_start_with_the_reason() -> None:
    """Nothing that is waited for would change the size of its pictures, or its clock."""
    stage = Stage()
    stage.silent.add("front")
    stage.sensor_faults["front"] = WRONG_SIZE
    stage.start()
    alert = stage.run_until(Alert, limit_s=5)
    assert isinstance(alert, Alert)
    assert (alert.cause, alert.reason) == ("sensor_fault", f"front cannot be used: {WRONG_SIZE}")
    stage.sensor_faults.clear()
    stage.silent.clear()
    assert stage.decide("resume") is None
    stage.answer(stage.send_of("system1"))


def test_a_fault_that_passes_in_time_calls_nobody() -> None:
    """The first pictures of a camera that starts may be old."""
    stage = Stage()
    stage.late_s["front"] = 2.0
    stage.sensor_faults["front"] = "stamped 2.00 s behind this machine's clock"
    stage.start()
    stage.run(2.0)
    stage.late_s.clear()
    stage.sensor_faults.clear()
    stage.answer(stage.send_of("system1"))
    assert not stage.of(Alert)


def test_why_a_sensor_is_old_is_told_with_its_age() -> None:
    stage = Stage()
    stage.start()
    stage.answer(stage.send_of("system1"))
    stage.late_s["front"] = 3.2
    stage.silent.add("front")
    stage.sensor_faults["front"] = "stamped 3.20 s behind this machine's clock"
    stage.run_until(Hold, limit_s=1)
    [stopped] = [one for one in stage.of(Decision) if one.cause == "sensor_stale"]
    assert stopped.reason.endswith(" ms old: stamped 3.20 s behind this machine's clock")
    alert = stage.run_until(Alert, limit_s=5)
    assert isinstance(alert, Alert) and alert.cause == "sensor_silent"
    assert alert.reason.endswith(": stamped 3.20 s behind this machine's clock")
