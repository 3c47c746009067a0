"""What a recording needs of the arm: each setpoint that was sent, and what was measured, each with its own time."""

from __future__ import annotations

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.time import Time
from rosa_interfaces.msg import ArmCommand
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from rosa_client.loops.control_loop import LATE_PERIODS
from rosa_client.motion.chunk_player import SILENT
from tests.system.arm_safety.bench import SPEC, Bench, arm

pytestmark = pytest.mark.slow
PERIOD_S = 1 / SPEC.control_rate_hz


def moments_s(message: JointTrajectory) -> list[float]:
    begin_s = Time.from_msg(message.header.stamp).nanoseconds / 1e9
    return [begin_s + p.time_from_start.sec + p.time_from_start.nanosec / 1e9 for p in message.points]


def test_every_setpoint_that_was_sent_is_told_once_with_its_time() -> None:
    with arm() as bench:
        heard: list[JointTrajectory] = []
        bench.node.create_subscription(JointTrajectory, "arm_setpoints", heard.append, 50)
        restarts: list[
            int
        ] = []  # of the control loop, where it was too late to catch up: it drops lost periods

        def on_diagnostics(message: DiagnosticArray) -> None:
            (values,) = [one.values for one in message.status if one.name.endswith(": control")]
            restarts.append(int({one.key: one.value for one in values}["schedule_restarts"]))

        bench.node.create_subscription(DiagnosticArray, "/diagnostics", on_diagnostics, 10)
        bench.until(lambda: heard and restarts, "the setpoints of an arm that holds")
        target = [SPEC.home_rad[0] + 0.3, *SPEC.home_rad[1:]]

        def there() -> bool:
            assert bench.status is not None
            # Where this process was not run for a while, it orders again, as a runtime does.
            if bench.status.cut_short == SILENT:
                bench.order(ArmCommand.MOVE_TO, joint_target_rad=target, gripper_width_m=0.04)
            return bool(abs(bench.joints[-1][1][0] - target[0]) < 1e-3 and bench.status.settled)

        bench.play(0.3, 2.0)
        bench.until(there, "the arm at the end of its way")
        bench.spin(0.5)
        messages = list(heard)
        told = len(restarts)
        bench.until(lambda: len(restarts) > told, "how often the loop has dropped periods")
        assert all(list(one.joint_names) == list(SPEC.action_names) for one in messages)
        rows = np.array([point.positions for one in messages for point in one.points])
        times_s = np.array([moment for one in messages for moment in moments_s(one)])
        assert rows[0] == pytest.approx([*SPEC.home_rad, SPEC.gripper.max_m])
        assert rows[-1, 0] == pytest.approx(SPEC.home_rad[0] + 0.3, abs=0.01)
        # None is missing: no step is longer than the joint's speed allows in one period.
        step_rad = np.abs(np.diff(rows[:, 0])).max()
        assert 0 < step_rad <= SPEC.limits.velocity_rad_s[0] * PERIOD_S
        gaps_s = np.diff(times_s)
        assert (gaps_s > 0).all(), "in order, and none twice"
        dropped = gaps_s > (LATE_PERIODS + 1) * PERIOD_S
        assert dropped.sum() <= restarts[-1] - restarts[0], "a message is missing"
        assert (~dropped).sum() == pytest.approx(gaps_s[~dropped].sum() / PERIOD_S, rel=0.05)
        # What was reached is what was sent.
        assert bench.joints[-1][1] == pytest.approx(rows[-1, :7], abs=1e-3)


def test_a_measurement_has_the_time_at_which_it_was_made() -> None:
    with arm("tests.system.arm_safety.drivers:TardyArm") as bench:
        assert min(ages_s(bench)) >= 0.2


def ages_s(bench: Bench) -> list[float]:
    """How old each of the next joint states says that it is, when it comes."""
    ages: list[float] = []

    def hear(message: JointState) -> None:
        now = bench.node.get_clock().now()
        ages.append((now - Time.from_msg(message.header.stamp)).nanoseconds / 1e9)

    bench.node.create_subscription(JointState, "joint_states", hear, 10)
    bench.until(lambda: len(ages) > 10, "joint states")
    return ages
