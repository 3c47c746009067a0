"""A driver that cannot move its arm says so through the real arm node, whether it comes back or not."""

from __future__ import annotations

import pytest
from rosa_interfaces.msg import ArmStatus
from rosa_interfaces.srv import ReleaseEmergencyStop
from std_srvs.srv import Trigger

from rosa_client.motion.emergency_stop import STOPPED
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


def test_a_driver_is_halted_by_the_stop_and_neither_recovered_nor_released_before_the_next_order() -> None:
    with arm("tests.system.arm_safety.drivers:HaltingArm") as bench:
        bench.until(
            lambda: bench.joints and bench.width_m == 0.0, "a driver that is halted before the first order"
        )
        bench.home()
        bench.until(lambda: bench.width_m == 0.08, "a driver that obeys")
        assert bench.call(Trigger, "emergency_stop", Trigger.Request()).success
        bench.until(lambda: bench.width_m == 0.0, "a driver that is halted")
        recovery = bench.call(Trigger, "recover", Trigger.Request())
        assert (recovery.success, recovery.message) == (False, STOPPED.reason)
        released = ReleaseEmergencyStop.Request(decided_by="ada", why="the cell is clear")
        assert bench.call(ReleaseEmergencyStop, "release_emergency_stop", released).accepted
        bench.spin(0.3)
        assert bench.width_m == 0.0, "releasing moves nothing"
        bench.home()
        bench.until(lambda: bench.width_m == 0.08, "a driver that obeys")
        assert bench.call(Trigger, "recover", Trigger.Request()).success


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
