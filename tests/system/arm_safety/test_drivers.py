"""A driver that cannot move its arm says so through the real arm node, whether it comes back or not."""

from __future__ import annotations

import pytest
from rosa_interfaces.msg import ArmStatus
from std_srvs.srv import Trigger

from tests.system.arm_safety.bench import arm

pytestmark = pytest.mark.slow


def test_a_driver_that_recovers_is_obeyed_again() -> None:
    with arm("tests.system.arm_safety.drivers:ReflexArm") as bench:
        bench.play(0.4, 2.0)
        bench.until(lambda: bench.status.fault == "joint 1: cartesian reflex", "the fault")
        assert bench.status.cut_short == "the arm reports: joint 1: cartesian reflex"
        assert bench.play(0.4).state == ArmStatus.HOLDING
        bench.until(lambda: bench.status.fault == "", "the recovery")
        assert bench.play(0.4).state == ArmStatus.PLAYING


def test_a_driver_that_dies_is_reported_and_can_still_be_stopped_for_good() -> None:
    with arm("tests.system.arm_safety.drivers:BreakingArm") as bench:
        assert bench.play(0.4, 20.0).state == ArmStatus.PLAYING
        bench.until(
            lambda: "the control loop ended" in bench.status.fault, "a status after the end of the loop"
        )
        assert "the arm's controller does not answer" in bench.status.fault
        first_s = bench.statuses[-1][0]
        bench.spin(0.5)
        assert bench.statuses[-1][0] > first_s, "it is said again and again"
        assert bench.call(Trigger, "emergency_stop", Trigger.Request()).success
        bench.until(lambda: bench.status.emergency_stop, "the latch, even now")
