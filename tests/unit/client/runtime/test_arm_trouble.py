"""The arm does not do what it was told: cut short, faulty, silent, or under an emergency stop."""

from __future__ import annotations

import pytest

from rosa_client.runtime.commands import Alert, Hold, MoveTo, Play, Send, TaskEnded
from rosa_client.runtime.machines.task_machine import State
from tests.unit.client.refusals import because
from tests.unit.client.runtime.stage import SAFETY, Stage


def playing() -> Stage:
    stage = Stage()
    stage.good["system1"] = ""
    stage.start()
    stage.run_until(Play)
    return stage


def test_a_chunk_that_the_arm_cut_short_is_not_taken_as_played() -> None:
    stage = playing()
    stage.cut_short = "no sign of life from the runtime for 0.1 s"
    orders = [type(c) for c in stage.run(0.02) if isinstance(c, Hold | Play)]
    assert orders == [Hold, Play]
    assert ("stop_and_resend", "arm_cut_short") in stage.actions_taken
    assert not stage.of(Alert)


def test_an_arm_that_cuts_every_chunk_short_calls_a_human() -> None:
    stage = playing()
    stage.cut_short = "the way leaves the workspace"
    alert = stage.run_until(Alert)
    assert isinstance(alert, Alert)
    assert alert.cause == "arm_cut_short"
    assert "3 chunks in a row short: the way leaves the workspace" in alert.reason
    assert len(stage.of(Play)) == 3


def test_a_chunk_that_ran_to_its_end_counts_anew() -> None:
    stage = playing()
    for _ in range(4):
        stage.cut_short = "no sign of life"
        stage.run(0.02)
        stage.cut_short = ""
        stage.run(1.2)
    assert not stage.of(Alert)


def test_a_move_that_the_arm_cut_short_is_ordered_again_until_its_time_is_over() -> None:
    stage = Stage(SAFETY)
    stage.start()
    stage.answer(stage.send_of("safety"), verdict="unsafe")
    stage.good["safety"] = "safe"
    began_s = stage.now_s
    stage.cut_short = "no sign of life"
    stage.run(2.0)
    assert len(stage.of(MoveTo)) > 3
    assert {move.pose for move in stage.of(MoveTo)} == {"safe"}
    alert = stage.run_until(Alert, limit_s=25)
    assert isinstance(alert, Alert)
    assert alert.cause == "move_timeout"
    assert stage.now_s - began_s == pytest.approx(20, abs=0.2)


def test_an_arm_that_takes_no_order_calls_a_human() -> None:
    stage = playing()
    stage.arm_deaf = True
    stage.run_until(Play)
    alert = stage.run_until(Alert, limit_s=4)
    assert isinstance(alert, Alert)
    assert alert.cause == "arm_silent"


def test_a_task_does_not_begin_before_the_arm_answers() -> None:
    stage = Stage()
    stage.arm_deaf = True
    stage.start()
    orders = [c for c in stage.run(30) if isinstance(c, Hold)]
    assert len(orders) > 20, "asked again and again: an order given before the arm listened is lost"
    assert not stage.of(Send)
    alert = stage.run_until(Alert, limit_s=40)
    assert isinstance(alert, Alert)
    assert "the arm does not take orders" in alert.reason


def test_the_next_picture_is_not_taken_before_the_arm_rests() -> None:
    stage = playing()
    stage.arm_stuck = True
    assert not [c for c in stage.run(5) if isinstance(c, Send)]
    stage.arm_stuck = False
    stage.send_of("system1", limit_s=0.1)


# -- faults -----------------------------------------------------------------------------------------------------------


def test_a_fault_that_is_still_there_after_the_decision_calls_a_human_again() -> None:
    stage = playing()
    stage.arm_fault = "joint 3: cartesian reflex"
    first = stage.run_until(Alert, limit_s=0.1)
    plays = len(stage.of(Play))
    assert isinstance(first, Alert)
    assert stage.decide("resume") is None
    second = stage.run_until(Alert, limit_s=0.1)
    assert isinstance(second, Alert)
    assert second.alert_id == first.alert_id + 1
    assert len(stage.of(Play)) == plays


def test_a_fault_that_only_says_that_the_last_order_was_refused_ends_with_the_next_order() -> None:
    stage = playing()
    stage.arm_fault = "chunk: waypoint 3 leaves the workspace"
    stage.run_until(Alert, limit_s=0.1)
    stage.arm_deaf = True  # its answer takes a while
    assert stage.decide("resume") is None
    assert not [c for c in stage.run(0.1) if isinstance(c, Alert)]
    stage.arm_deaf, stage.arm_fault, stage.arm_sequence = False, "", stage.last_sequence
    stage.run_until(Play, limit_s=1)


def called_for_a_fault() -> Stage:
    """A fault has called a human; it is over, and the arm is led on."""
    stage = playing()
    stage.arm_fault = "no new joint states for 0.5 s"
    stage.run_until(Alert, limit_s=0.1)
    stage.run(3.0)
    stage.arm_fault, stage.arm_returns = "", True
    stage.run(0.1)
    return stage


@pytest.mark.parametrize("choice", ["resume", "retry", "return_to_safe_state"])
def test_what_a_person_decides_while_the_arm_is_led_on_is_done_afterwards(choice: str) -> None:
    stage = called_for_a_fault()
    before = len(stage.of(Alert))
    assert stage.decide(choice) is None
    assert stage.actions_taken[-1] == ("wait", "arm_returns")
    ordered = len(stage.of(MoveTo))
    stage.run(1.5)
    assert len(stage.of(MoveTo)) == ordered, "an arm that is led on is not asked again and again"
    assert not [c for c in stage.run(0.5) if isinstance(c, Send | Play)]
    assert len(stage.of(Alert)) == before
    stage.arm_returns = False
    if choice == "resume":
        stage.run_until(Play, limit_s=1)
    else:
        move = stage.run_until(MoveTo, limit_s=0.1)
        assert isinstance(move, MoveTo) and move.pose == stage.core.arm.leg.pose, "it was refused before"
    if choice == "retry":
        stage.run_until(Play, limit_s=10)
    assert len(stage.of(Alert)) == before


@pytest.mark.parametrize(
    ("choice", "cause"),
    [("resume", "not_ready"), ("retry", "move_timeout"), ("return_to_safe_state", "move_timeout")],
)
def test_an_arm_that_is_led_on_for_too_long_calls_a_human(choice: str, cause: str) -> None:
    stage = called_for_a_fault()
    stage.decide(choice)
    alert = stage.run_until(Alert, limit_s=61)
    assert isinstance(alert, Alert)
    assert alert.cause == cause
    if choice == "resume":
        assert "the arm is led on from where it stands" in alert.reason


@pytest.mark.parametrize("known", [True, False])
def test_a_task_that_begins_while_the_arm_is_led_on_waits_for_its_end(known: bool) -> None:
    """What an arm says before it has taken an order of this runtime is not known."""
    stage = Stage()
    stage.good["system1"] = ""
    stage.arm_returns = known
    stage.run(0.1)
    stage.start()
    stage.arm_returns = True
    stage.run(1.0)
    assert not stage.of(Alert)
    stage.arm_returns = False
    stage.run_until(Play, limit_s=1)


def test_a_new_fault_of_an_arm_that_is_led_on_calls_a_human() -> None:
    stage = called_for_a_fault()
    stage.decide("resume")
    stage.run(0.5)
    stage.arm_returns, stage.arm_fault = False, "joint 3: cartesian reflex"
    alert = stage.run_until(Alert, limit_s=0.1)
    assert isinstance(alert, Alert)
    assert alert.cause == "arm_fault"


def test_an_arm_that_is_led_on_although_nobody_has_decided_about_its_fault_calls_a_human() -> None:
    """As one whose fault came and went while the runtime was stopped."""
    stage = playing()
    stage.arm_returns = True
    alert = stage.run_until(Alert, limit_s=0.1)
    assert isinstance(alert, Alert)
    assert alert.cause == "arm_fault"
    stage.decide("resume")
    stage.arm_returns = False
    stage.run_until(Play, limit_s=1)
    stage.arm_returns = True
    stage.run_until(Alert, limit_s=0.1)


# -- emergency stop ---------------------------------------------------------------------------------------------------


def test_an_emergency_stop_calls_a_human_at_once() -> None:
    stage = playing()
    stage.emergency_stop = True
    stage.run(0.01)
    assert stage.of(Alert)[-1].cause == "emergency_stop"
    assert not [c for c in stage.run(30) if isinstance(c, Play | MoveTo | Send)]


@pytest.mark.parametrize("choice", ["resume", "retry", "return_to_safe_state"])
def test_while_it_is_latched_nothing_is_decided_but_the_end(choice: str) -> None:
    stage = playing()
    stage.emergency_stop = True
    stage.run_until(Alert)
    said = because("emergency_stop", stage.decide(choice))
    assert said == "the emergency stop is latched; release it first"
    assert stage.core.state is State.WAITING_FOR_HUMAN
    stage.emergency_stop = False
    stage.run(0.02)
    assert stage.core.state is State.WAITING_FOR_HUMAN, "a release moves nothing"
    assert stage.decide(choice) is None


def test_under_an_emergency_stop_a_task_may_be_ended_and_the_next_one_waits_too() -> None:
    stage = playing()
    stage.emergency_stop = True
    stage.run_until(Alert)
    assert stage.decide("abort") is None
    assert stage.of(TaskEnded)[-1].outcome == "aborted"
    stage.start()
    stage.run_until(Alert, limit_s=0.1)


def test_an_emergency_stop_wins_over_a_deadline_of_the_same_moment() -> None:
    stage = Stage(SAFETY)
    stage.start()
    stage.send_of("safety")
    stage.now_s += 0.25
    stage.emergency_stop = True
    stage.run(0.01)
    assert not stage.of(MoveTo), "the fallback would have driven to the safe pose"


def test_an_emergency_stop_while_the_robot_waits_already_is_told() -> None:
    stage = Stage()
    stage.start()
    stage.run_until(Alert)
    stage.emergency_stop = True
    stage.run(0.1)
    assert stage.actions_taken.count(("wait", "emergency_stop")) == 1
    assert len(stage.of(Alert)) == 1


# -- sensors ----------------------------------------------------------------------------------------------------------


def test_a_camera_that_is_always_too_late_calls_a_human_although_it_never_falls_silent() -> None:
    stage = playing()
    stage.late_s["front"] = 0.8
    stage.run_until(Hold, limit_s=1)
    alert = stage.run_until(Alert, limit_s=4)
    assert isinstance(alert, Alert)
    assert alert.cause == "sensor_silent"


def test_a_robot_that_was_away_itself_gives_its_sensors_time() -> None:
    """The runtime was stopped for five seconds: what it knows is old, but nothing has failed."""
    stage = playing()
    stage.now_s += 5.0
    stage._note(stage.runtime.tick(stage.now_s, stage.inputs()))
    assert stage.core.state is State.HOLDING
    stage.run_until(Play, limit_s=1)
    assert not stage.of(Alert)


def test_a_sensor_that_comes_and_goes_calls_a_human_when_nothing_is_carried_out_between() -> None:
    stage = Stage()
    stage.start()
    stage.late_s = {"front": 0.4}
    stage.run(0.05)
    for _ in range(20):  # each look ends before its answer can come
        stage.silent = {"front"}
        stage.run(0.26)
        stage.silent = set()
        stage.run(0.04)
        if stage.of(Alert):
            break
    alert = stage.of(Alert)[-1]
    assert alert.cause == "max_stops_without_action"
    assert "ms old; 10 stops in a row, with no action carried out between" in alert.reason


def test_a_chunk_that_was_carried_out_forgives_the_stops_before_it() -> None:
    stage = Stage()
    stage.good["system1"] = ""
    stage.start()
    for _ in range(8):
        stage.run(1.0)
        stage.silent = {"front"}
        stage.run(0.7)
        stage.silent = set()
    assert not stage.of(Alert)


def test_an_arm_fault_calls_a_human_at_once() -> None:
    stage = Stage()
    stage.start()
    stage.answer(stage.send_of("system1"))
    stage.arm_fault = "joint 3: cartesian reflex"
    stage.run(0.02)
    assert "cartesian reflex" in stage.of(Alert)[-1].reason
