"""The real arm node keeps itself safe: without a living runtime, stopped by anybody, with a box and a faulty driver."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosa_interfaces.msg import ArmCommand, ArmStatus, OperatorAudit
from rosa_interfaces.srv import ReleaseEmergencyStop
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from rosa_client.motion.chunk_player import SILENT
from tests.system.arm_safety.bench import LATCHED, WAIT_S, Bench, arm, sender

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running() -> Iterator[Bench]:
    with arm() as bench:
        yield bench


@pytest.fixture
def bench(running: Bench) -> Bench:
    """The arm at home, holding, nothing latched; the bench then keeps still."""
    release(running, "bench", "next story")
    running.home()
    running.lives = False
    running.statuses.clear()
    running.joints.clear()
    return running


def release(bench: Bench, decided_by: str, why: str) -> ReleaseEmergencyStop.Response:
    request = ReleaseEmergencyStop.Request(decided_by=decided_by, why=why)
    return bench.call(ReleaseEmergencyStop, "release_emergency_stop", request)


def test_the_arm_shares_no_memory_that_a_stopped_process_could_keep_locked(bench: Bench) -> None:
    shared = [
        line
        for line in Path(f"/proc/{bench.arm_pid}/maps").read_text().splitlines()
        if "/dev/shm/" in line and "fastdds" in line
    ]
    assert not shared
    mine = Path("/proc/self/maps").read_text()
    assert "fastdds" in mine, "others do share theirs, as pictures need it"


def rests(status: ArmStatus) -> bool:
    return status.state == ArmStatus.HOLDING


def playing_sender(bench: Bench) -> subprocess.Popen[bytes]:
    """A stand-in for the runtime whose signs of life have kept the arm going for a second. One that was itself stalled
    for so long that the arm stopped is ended, and another one begins."""
    end_s = time.monotonic() + WAIT_S
    while True:
        runtime, begun = sender(), len(bench.statuses)
        try:
            bench.until(
                lambda begun=begun: any(s.state == ArmStatus.PLAYING for _, s in bench.statuses[begun:]),
                "a chunk that plays",
            )
            bench.spin(1.0)
            if bench.status.state == ArmStatus.PLAYING:
                return runtime
            assert bench.status.cut_short == SILENT, bench.status
            assert time.monotonic() < end_s, "its signs of life do not keep it going"
        except BaseException:
            runtime.kill()
            runtime.wait()
            raise
        runtime.kill()
        runtime.wait()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_arm_holds_when_its_runtime_is_killed_or_stopped_in_mid_chunk(
    bench: Bench, how: signal.Signals
) -> None:
    runtime = playing_sender(bench)
    try:
        runtime.send_signal(how)
        gone_s = time.monotonic()
        held = lambda: next((at_s for at_s, s in bench.statuses if at_s > gone_s and rests(s)), 0.0)  # noqa: E731
        held_s = bench.until(held, "the arm to hold") - gone_s
        print(f"\n{how.name}: holding {1000 * held_s:.0f} ms after the signal")
        assert bench.status.cut_short == SILENT == "no sign of life from the runtime for 0.1 s"
        bench.rest()
        still_s = time.monotonic()
        if how is signal.SIGSTOP:
            runtime.send_signal(signal.SIGCONT)  # its signs of life come again, but no new order
        bench.spin(1.0)
        assert bench.moved_after(still_s) < 1e-9
        assert bench.status.cut_short
    finally:
        runtime.kill()
        runtime.wait()
    assert bench.order(ArmCommand.HOLD, epoch=time.time_ns()).cut_short == "", (
        "an order that is obeyed clears it"
    )


@pytest.mark.parametrize("topic", ["emergency_stop", "/emergency_stop"])
@pytest.mark.parametrize("reliability", [ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT])
def test_a_button_on_a_topic_stops_the_arm_and_latches(
    bench: Bench, topic: str, reliability: ReliabilityPolicy
) -> None:
    # The arm listens in both ways; that one of them does not suit this button is not worth a warning.
    quiet = PublisherEventCallbacks(use_default_callbacks=False)
    qos = QoSProfile(depth=1, reliability=reliability)
    button = bench.node.create_publisher(Bool, topic, qos, event_callbacks=quiet)
    bench.until(lambda: button.get_subscription_count() > 0, "an arm that listens to the button")
    end_s = time.monotonic() + WAIT_S
    while True:
        bench.play_for(0.5, 0.4)
        button.publish(Bool(data=True))
        pressed_s = time.monotonic()
        # A status may come between the latch and the control period that obeys it.
        bench.until(
            lambda: bench.status.emergency_stop and bench.status.state != ArmStatus.PLAYING, "the latch"
        )
        if bench.status.cut_short != SILENT:
            break
        # This process was stalled until it pressed: the arm stood already.
        assert time.monotonic() < end_s
        button.publish(Bool(data=False))
        assert release(bench, "bench", "once more").accepted
        bench.until(lambda: not bench.status.emergency_stop, "the release")
    print(f"\n{topic}: stopped {1000 * (bench.statuses[-1][0] - pressed_s):.0f} ms after the press")
    assert (bench.status.state, bench.status.cut_short) == (
        ArmStatus.HOLDING,
        "the emergency stop was pressed",
    )
    bench.rest()
    still_s = time.monotonic()
    button.publish(Bool(data=False))
    assert "the emergency stop is latched" in bench.play(0.4).fault
    bench.spin(0.5)
    assert bench.status.emergency_stop, "false releases nothing"
    assert bench.moved_after(still_s) < 1e-9
    bench.node.destroy_publisher(button)


def test_only_a_person_with_a_name_and_a_reason_releases_it_and_everybody_can_read_who(bench: Bench) -> None:
    assert bench.call(Trigger, "emergency_stop", Trigger.Request()).success
    bench.until(lambda: bench.status and bench.status.emergency_stop, "the latch, with no order under way")
    bench.audits.clear()
    assert "decided_by is empty" in release(bench, "", "the cell is clear").reason
    assert "why is empty" in release(bench, "Ada", " ").reason
    assert "latched" in bench.play(0.4).fault
    accepted = release(bench, "Ada", "the cell is clear")
    assert (accepted.accepted, accepted.reason) == (True, "")
    bench.until(lambda: not bench.status.emergency_stop, "the release")
    assert bench.status.fault == ""
    bench.spin(1.0)
    assert bench.moved_after(time.monotonic() - 0.8) < 1e-9, "releasing moves nothing"
    late: list[OperatorAudit] = []
    bench.node.create_subscription(OperatorAudit, "operator_audit", late.append, LATCHED)
    bench.until(
        lambda: any(audit.decided_by == "Ada" and audit.accepted for audit in late), "the audit, late"
    )
    newest = next(audit for audit in late if audit.decided_by == "Ada" and audit.accepted)
    assert (newest.robot, newest.choice, newest.why) == (
        "robot",
        "release_emergency_stop",
        "the cell is clear",
    )
    assert [audit.accepted for audit in bench.audits] == [False, False, True]
    assert bench.play(0.05, 0.5).fault == "", "a new order is obeyed again"


def test_a_chunk_that_leaves_the_workspace_is_refused_whole(bench: Bench) -> None:
    status = bench.play(0.9, 1.0, joint=1)
    assert status.state == ArmStatus.HOLDING
    assert "chunk: waypoint" in status.fault and "(the workspace)" in status.fault
    bench.spin(1.0)
    assert bench.moved_after(time.monotonic() - 0.8) < 1e-9


def test_the_speed_can_be_set_while_it_runs_and_nonsense_is_refused(bench: Bench) -> None:
    assert not set_scale(bench, 2.0)
    assert not set_scale(bench, 0.0)
    assert set_scale(bench, 0.5)
    try:
        assert bench.play(0.1, 1.0).remaining_s == pytest.approx(2.0, abs=0.1)
        joins = bench.play(0.1, 1.0, skip_s=0.2)
        assert joins.state == ArmStatus.HOLDING, "with this speed it does not begin where its sender thinks"
        assert "velocity_scale 1, but the arm moves with 0.5" in joins.fault
    finally:
        assert set_scale(bench, 1.0)
    joins = bench.play(0.1, 1.0, skip_s=0.2)
    assert (joins.state, joins.fault) == (ArmStatus.PLAYING, "")


def set_scale(bench: Bench, share: float) -> bool:
    value = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=share)
    request = SetParameters.Request(parameters=[Parameter(name="velocity_scale", value=value)])
    return bool(bench.call(SetParameters, "set_parameters", request).results[0].successful)
