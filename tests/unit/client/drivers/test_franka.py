"""The `franka` driver: when it holds the arm, what it reports, and how it recovers. The library is a scripted arm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from rosa_client.drivers import DriverError
from rosa_client.drivers.arms.franka import FrankaArm
from rosa_client.drivers.arms.franka_ports import NETWORK, REAL_TIME, FciError
from rosa_client.drivers.arms.franka_rules import IDLE, REFLEX, USER_STOPPED
from rosa_contract.config.robot import WITHOUT_GRIPPER
from tests.unit.client.drivers.scripted_franka import SPEC, Q, ScriptedArm, ScriptedHand
from tests.unit.client.sent import sent


@pytest.fixture
def fci() -> ScriptedArm:
    return ScriptedArm()


@pytest.fixture
def hand() -> ScriptedHand:
    return ScriptedHand()


@pytest.fixture
def arm(fci: ScriptedArm, hand: ScriptedHand) -> Iterator[FrankaArm]:
    made = FrankaArm(SPEC, 0, fci, hand)
    yield made
    made.close()


def until(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < end_s, "it did not happen within 10 s"
        time.sleep(0.005)


def faulty(arm: FrankaArm, words: str) -> None:
    until(lambda: words in arm.read().fault)


def test_it_holds_the_arm_from_the_start_and_follows(arm: FrankaArm, fci: ScriptedArm) -> None:
    arm.connect("/fr3")
    assert fci.calls == ["connect", "follow"]
    assert arm.read().fault == ""
    arm.track(sent(Q, 0.08, 0.01))
    arm.track(sent(Q + 0.01, 0.08, 0.01))
    assert [len(way) for way in fci.ways] == [1, 5]
    assert arm.read().q_rad.tolist() == (Q + 0.01).tolist()


def test_a_recovery_of_an_arm_that_follows_does_not_disturb_its_motion(
    arm: FrankaArm, fci: ScriptedArm
) -> None:
    arm.connect("/fr3")
    arm.track(sent(Q, 0.08, 0.01))
    arm.recover()
    time.sleep(0.1)
    arm.track(sent(Q + 0.01, 0.08, 0.01))
    assert [len(way) for way in fci.ways] == [1, 5], "it goes on from its last setpoint, in small steps"


@pytest.mark.parametrize(
    ("mode", "says"), [(USER_STOPPED, "activation device"), (REFLEX, "reflex: joint_reflex")]
)
def test_an_arm_that_is_stopped_at_the_start_waits_for_a_person(
    mode: str, says: str, arm: FrankaArm, fci: ScriptedArm
) -> None:
    fci.mode, fci.errors = mode, ("joint_reflex",)
    arm.connect("/fr3")
    assert says in arm.read().fault
    arm.track(sent(Q, 0.08, 0.01))
    assert (fci.calls, fci.ways) == (["connect"], [])


def test_a_reflex_is_a_fault_until_somebody_says_recover(arm: FrankaArm, fci: ScriptedArm) -> None:
    arm.connect("/fr3")
    fci.reflex("cartesian_reflex")
    faulty(arm, "stopped by a reflex: cartesian_reflex (contact")
    arm.track(sent(Q, 0.08, 0.01))
    assert fci.ways == [], "nothing moves before"
    arm.recover()
    until(lambda: arm.read().fault == "")
    assert fci.calls == ["connect", "follow", "clear_error", "follow"]


def test_a_user_stop_has_to_be_released_before_a_recovery_helps(arm: FrankaArm, fci: ScriptedArm) -> None:
    arm.connect("/fr3")
    fci.mode = USER_STOPPED
    faulty(arm, "stopped by its user")
    arm.recover()
    faulty(arm, "recovery failed: the arm was stopped by its user")
    fci.mode = IDLE  # released
    arm.recover()
    until(lambda: arm.read().fault == "")
    assert fci.calls == ["connect", "follow", "follow"]


def test_a_step_that_fails_is_named(arm: FrankaArm, fci: ScriptedArm) -> None:
    arm.connect("/fr3")
    fci.reflex("joint_reflex")
    faulty(arm, "reflex")
    fci.fails["clear_error"] = FciError("command not possible", "command")
    arm.recover()
    faulty(arm, "recovery failed: clear the error: command not possible")


def test_a_step_that_does_not_help_is_not_repeated_for_ever(arm: FrankaArm, fci: ScriptedArm) -> None:
    arm.connect("/fr3")
    fci.reflex("joint_reflex")
    faulty(arm, "reflex")
    fci.clears = False
    arm.recover()
    faulty(arm, "recovery failed: clear the error: it did not help")
    assert fci.calls.count("clear_error") == 1


def test_a_lost_connection_ages_the_state_and_a_recovery_connects_again(
    arm: FrankaArm, fci: ScriptedArm
) -> None:
    arm.connect("/fr3")
    fci.fails = {name: FciError("UDP receive: Timeout", NETWORK) for name in ("read", "connect")}
    fci.mode = IDLE
    faulty(arm, "the connection to the arm is lost: UDP receive: Timeout")
    until(lambda: arm.read().age_s > 0.05)
    arm.recover()
    faulty(arm, "recovery failed: connect: UDP receive: Timeout")
    fci.fails.clear()
    arm.recover()
    until(lambda: arm.read().fault == "")
    assert fci.calls == ["connect", "follow", "connect", "connect", "follow"]


def test_a_refused_setpoint_is_a_fault_and_does_not_end_the_control_loop(
    arm: FrankaArm, fci: ScriptedArm
) -> None:
    arm.connect("/fr3")
    fci.fails["send"] = FciError("a target must be finite", "value")
    arm.track(sent(Q, 0.08, 0.01))
    assert arm.read().fault == "the arm refused a setpoint: a target must be finite"
    fci.fails.clear()
    arm.recover()
    until(lambda: arm.read().fault == "")
    assert fci.calls == ["connect", "follow"], "it was held all the time"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            FciError("Connection to FCI refused", NETWORK),
            "arm.address: 172.16.0.2: Connection to FCI refused",
        ),
        (
            FciError("no realtime capabilities", REAL_TIME),
            "arm.real_time: no realtime capabilities: see docs",
        ),
    ],
)
def test_what_keeps_it_from_starting_is_one_line_with_the_setting(
    error: FciError, says: str, arm: FrankaArm, fci: ScriptedArm
) -> None:
    fci.fails["connect"] = error
    with pytest.raises(DriverError, match=says):
        arm.connect("/fr3")


def test_an_arm_that_was_never_connected_can_be_closed(fci: ScriptedArm) -> None:
    FrankaArm(SPEC, 0, fci, ScriptedHand()).close()
    assert fci.calls == []


def test_a_closed_arm_lets_go_of_the_arm_and_of_its_hand(
    arm: FrankaArm, fci: ScriptedArm, hand: ScriptedHand
) -> None:
    arm.connect("/fr3")
    arm.close()
    assert (fci.calls[-1], hand.calls[-1]) == ("leave", "leave"), "each serves one program at a time"


def test_a_share_of_the_limits_below_the_speed_of_the_setpoints_is_refused(fci: ScriptedArm) -> None:
    spec = replace(SPEC, arm={"address": "arm", "limit_share": 0.3}, velocity_scale=0.4)
    with pytest.raises(DriverError, match=r"arm\.limit_share: 0\.3 is less than velocity_scale, 0\.4"):
        FrankaArm(spec, 0, fci, ScriptedHand())


def test_control_that_does_not_answer_is_another_programs() -> None:
    """Control serves one program; the library waits for as long as another one has it."""
    fci = ScriptedArm()
    fci.hangs_s = 0.3
    spec = replace(SPEC, arm={"address": "arm", "start_timeout_s": 0.05})
    made = FrankaArm(spec, 0, fci, ScriptedHand())
    with pytest.raises(DriverError, match=r"no answer from arm within 0\.05 s; another program may hold FCI"):
        made.connect("/fr3")
    made.close()
    assert fci.calls == ["connect", "leave"], (
        "an arm that answers after all is not held by a driver that has given up"
    )


def test_a_grasp_closes_on_the_object_and_opening_lets_go(arm: FrankaArm, hand: ScriptedHand) -> None:
    arm.connect("/fr3")
    arm.track(sent(Q, 0.0, 0.01))
    until(lambda: arm.read().gripper_m == 0.04)
    time.sleep(0.15)  # at most ten goals a second
    arm.track(sent(Q, 0.08, 0.01))
    until(lambda: arm.read().gripper_m == 0.08)
    assert hand.calls == ["connect", "grasp", "move"]
    assert arm.read().fault == ""


def test_a_hand_that_was_never_homed_is_homed_by_a_recovery_only(arm: FrankaArm, hand: ScriptedHand) -> None:
    hand.widest_m = 0.0
    arm.connect("/fr3")
    assert "has not been homed" in arm.read().fault
    arm.track(sent(Q, 0.0, 0.01))
    assert hand.calls == ["connect"], "no finger moves before"
    arm.recover()
    until(lambda: arm.read().fault == "")
    assert hand.calls == ["connect", "home"]


def closing_and_told_to_open(arm: FrankaArm, hand: ScriptedHand) -> None:
    """The hand is busy with a grasp, and the goal to open waits behind it."""
    arm.connect("/fr3")
    hand.free.clear()
    arm.track(sent(Q, 0.0, 0.01))
    until(lambda: "grasp" in hand.calls)
    time.sleep(0.15)  # at most ten goals a second
    arm.track(sent(Q, 0.08, 0.01))


def test_a_goal_that_waits_is_not_begun_after_a_halt_and_an_order_for_the_same_width_is(
    arm: FrankaArm, hand: ScriptedHand
) -> None:
    closing_and_told_to_open(arm, hand)
    arm.halt()
    hand.free.set()
    until(lambda: arm.read().gripper_m == 0.04)
    time.sleep(0.15)
    arm.track(sent(Q, 0.08, 0.01))  # a stopped arm goes on being told to hold
    time.sleep(0.1)
    assert hand.calls == ["connect", "grasp"], "it finishes what it had begun, and begins nothing"
    arm.go_on()
    arm.track(sent(Q, 0.08, 0.01))
    until(lambda: arm.read().gripper_m == 0.08)
    assert hand.calls == ["connect", "grasp", "move"]


def test_a_goal_that_waits_is_not_begun_once_the_hand_counts_as_broken(
    fci: ScriptedArm, hand: ScriptedHand
) -> None:
    settings = {**SPEC.arm, "gripper": {"timeout_s": 0.5}}
    arm = FrankaArm(replace(SPEC, arm=settings), 0, fci, hand)
    closing_and_told_to_open(arm, hand)
    faulty(arm, "no result from the gripper for 0.5 s")
    hand.free.set()  # such as by a person who frees the fingers
    until(lambda: arm.read().gripper_m == 0.04)
    time.sleep(0.1)
    assert hand.calls == ["connect", "grasp"], "nothing is let go of before a person has looked after it"
    arm.recover()
    until(lambda: arm.read().fault == "")
    time.sleep(0.1)
    assert hand.calls == ["connect", "grasp"], "nor by the recovery"
    arm.track(sent(Q, 0.08, 0.01))
    until(lambda: hand.calls == ["connect", "grasp", "move"])
    arm.close()


def test_a_hand_that_is_recovered_does_not_home_after_a_halt(arm: FrankaArm, hand: ScriptedHand) -> None:
    arm.connect("/fr3")
    hand.widest_m = 0.0
    hand.fails = FciError("TCP connection got interrupted", NETWORK)
    faulty(arm, "the connection to the hand is lost")
    hand.fails = None
    hand.free.clear()
    arm.recover()
    until(lambda: hand.calls == ["connect", "connect"])  # it is being connected
    arm.halt()
    hand.free.set()
    faulty(arm, "has not been homed")
    assert "home" not in hand.calls, "no finger moves"
    arm.recover()
    until(lambda: arm.read().fault == "")
    assert hand.calls[-1] == "home", "a person has said so again"


def test_a_lost_hand_is_a_fault_and_connected_again(arm: FrankaArm, hand: ScriptedHand) -> None:
    arm.connect("/fr3")
    hand.fails = FciError("TCP connection got interrupted", NETWORK)
    faulty(arm, "the connection to the hand is lost: TCP connection got interrupted")
    hand.fails = None
    arm.recover()
    until(lambda: arm.read().fault == "")
    assert hand.calls == ["connect", "connect"]


def test_an_arm_without_a_hand_is_always_as_wide_as_asked(fci: ScriptedArm) -> None:
    made = FrankaArm(
        replace(SPEC, gripper=WITHOUT_GRIPPER, arm={"address": "arm", "gripper": {"kind": "none"}}), 0, fci
    )
    made.connect("/fr3")
    made.track(sent(Q, 0.03, 0.01))
    assert made.read().gripper_m.size == 0
    made.close()
