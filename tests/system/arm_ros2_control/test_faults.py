"""Whatever breaks between the arm node and a ros2_control robot: it is said in words, and the arm does not move on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from rcl_interfaces.msg import Log
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosa_interfaces.msg import ArmCommand, ArmStatus
from rosa_interfaces.srv import ReleaseEmergencyStop
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from rosa_client.motion.chunk_player import SILENT
from tests.system.arm_ros2_control.bench import ROBOT, STILL_RAD, Controlled, controlled
from tests.system.arm_safety.bench import SPEC

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def panda() -> Iterator[Controlled]:
    with controlled(ROBOT) as made:
        yield made


def test_joints_follow_and_the_gripper_closes(panda: Controlled) -> None:
    panda.moves()
    rows = [*SPEC.home_rad]
    panda.bench.order(ArmCommand.MOVE_TO, joint_target_rad=rows, gripper_width_m=0.0)
    panda.bench.until(lambda: panda.bench.width_m < 0.005, "closed fingers")


def test_a_controller_that_is_stopped_is_a_fault_until_an_operator_recovers_it(panda: Controlled) -> None:
    panda.in_motion()
    panda.break_down("controller_stopped")
    panda.fault("controller joint_trajectory_controller is inactive")
    panda.refuses()
    panda.break_down("")
    panda.fault("is inactive")  # the end of the cause starts nothing
    panda.recover()
    panda.bench.until(lambda: panda.bench.status.fault == "", "the recovery")
    assert panda.stands(0.5) < STILL_RAD, "recovering moves nothing"
    panda.moves()


def test_a_controller_that_is_stopped_and_started_again_at_once_does_not_go_on_with_the_motion(
    panda: Controlled,
) -> None:
    """It has stood still, so each setpoint of the motion is further away; a list five times a second shows nothing."""
    words = "controller joint_trajectory_controller is inactive"
    panda.in_motion()
    first = len(panda.bench.statuses)
    panda.break_down("controller_restarted")
    told = panda.bench.statuses

    def noticed() -> bool:
        return any(words in status.fault or words in status.cut_short for _, status in told[first:])

    panda.bench.until(noticed, "the fault")
    panda.break_down("")
    panda.bench.until(lambda: panda.bench.status.fault == "", "the arm's return")
    assert panda.stands(0.5) < STILL_RAD, "what was cut short is not taken up again"
    panda.moves()


def test_commands_that_nobody_follows_are_noticed_without_an_answer(panda: Controlled) -> None:
    panda.in_motion()
    panda.break_down("trajectory_rejected")
    ended_before = False

    def noticed() -> bool:
        nonlocal ended_before
        status = panda.bench.status
        # Stopped or at its end before the first lost command, as this process was slow: told to move again.
        if status.state == ArmStatus.HOLDING and not status.fault:
            assert status.cut_short == SILENT or not ended_before, "a motion ended that nobody had followed"
            ended_before = ended_before or status.cut_short != SILENT
            panda.bench.play(0.8, 4.0)
        return any("does not follow" in status.fault for _, status in panda.bench.statuses)

    panda.bench.until(noticed, "the fault")
    assert "does not follow" in panda.bench.status.cut_short
    assert panda.stands(0.8) < STILL_RAD
    panda.break_down("")
    assert panda.stands(0.5) < STILL_RAD, "what was cut short is not taken up again"
    panda.fault("recover it, which leads it on from there")
    panda.refuses()
    panda.recover()
    panda.bench.until(lambda: panda.bench.status.fault == "", "the recovery")
    panda.moves()


def test_an_arm_that_says_nothing_stops_and_is_obeyed_again_when_it_speaks(panda: Controlled) -> None:
    panda.in_motion()
    panda.break_down("stale_joint_states")
    panda.fault("no new joint states on /joint_states")
    assert panda.bench.play(0.5, 2.0).state == ArmStatus.HOLDING
    panda.bench.spin(0.5)
    panda.break_down("")
    panda.bench.until(lambda: panda.bench.status.fault == "", "the joint states")
    assert panda.stands(0.5) < STILL_RAD, "it stood still while nobody heard it"
    panda.moves()


def test_a_second_publisher_moves_no_arm_whose_stop_is_latched_and_is_told_and_logged_with_its_node(
    panda: Controlled,
) -> None:
    """As `joint_state_publisher_gui` does: zeros, ten times a second. The simulated controllers follow anything."""
    bench = panda.bench
    bench.home()
    logged: list[str] = []
    kept = QoSProfile(
        depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL
    )  # also what is said before it is matched
    bench.node.create_subscription(Log, "/rosout", lambda line: logged.append(line.msg), kept)
    assert bench.call(Trigger, "emergency_stop", Trigger.Request()).success
    first = len(panda.truth)
    liar = bench.node.create_publisher(JointState, "/joint_states", 10)

    def lie() -> None:
        zeros = JointState(name=list(SPEC.joints), position=[0.0] * 7)
        zeros.header.stamp = bench.node.get_clock().now().to_msg()
        liar.publish(zeros)

    timer = bench.node.create_timer(0.1, lie)
    panda.fault("is measured at 0 rad")
    bench.until(
        lambda: "nodes publish" in bench.status.fault and bench.node.get_name() in bench.status.fault,
        "who publishes",
    )
    bench.until(lambda: any("cannot be moved (measurement_range)" in line for line in logged), "the log")
    assert bench.play(0.5, 2.0).state == ArmStatus.HOLDING
    bench.spin(0.8)
    measured = np.array(panda.truth[first:])
    true = measured[np.abs(measured).max(axis=1) > 0.0]
    assert len(true) > 10 and len(true) < len(measured)
    assert np.ptp(true, axis=0).max() < STILL_RAD
    bench.node.destroy_timer(timer)
    bench.node.destroy_publisher(liar)
    clear = ReleaseEmergencyStop.Request(decided_by="ada", why="the publisher has ended")
    assert bench.call(ReleaseEmergencyStop, "release_emergency_stop", clear).accepted
    bench.until(lambda: bench.status.fault == "", "the measurements")
    panda.moves()


def test_fingers_that_do_not_close_are_a_fault_until_somebody_has_looked(panda: Controlled) -> None:
    panda.fingers_stick()
