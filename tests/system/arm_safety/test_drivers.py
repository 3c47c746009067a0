"""A driver that cannot move its arm says so through the real arm node, whether it comes back or not."""

from __future__ import annotations

import pytest
from rosa_interfaces.msg import ArmStatus
from std_srvs.srv import Trigger

from tests.system.arm_safety.bench import arm

pytestmark = pytest.mark.slow


def test_a_driver_that_recovers_is_obeyed_again() -> None:
    with arm("tests.system.arm_safety.drivers:ReflexArm") as bench:
        reflex = "joint 1: cartesian reflex"
        bench.play_until(lambda: bench.status.fault == reflex, "the fault", by_rad=0.4, seconds=2.0)
        assert bench.status.cut_short == "the arm reports: joint 1: cartesian reflex"
        assert bench.play(0.4).state == ArmStatus.HOLDING
        bench.until(lambda: bench.status.fault == "", "the recovery")
        bench.play_until(lambda: bench.status.state == ArmStatus.PLAYING, "an arm that plays", by_rad=0.4)


def test_a_driver_that_dies_is_reported_and_can_still_be_stopped_for_good() -> None:
    with arm("tests.system.arm_safety.drivers:BreakingArm") as bench:
        ended = "the control loop ended"
        bench.play_until(
            lambda: ended in bench.status.fault,
            "a status after the end of the loop",
            by_rad=0.4,
            seconds=20.0,
        )
        assert "the arm's controller does not answer" in bench.status.fault
        first_s = bench.statuses[-1][0]
        bench.spin(0.5)
        assert bench.statuses[-1][0] > first_s, "it is said again and again"
        assert bench.call(Trigger, "emergency_stop", Trigger.Request()).success
        bench.until(lambda: bench.status.emergency_stop, "the latch, even now")
