"""What operators may decide: the first wins, the second is told, and everything is counted anew."""

from __future__ import annotations

import pytest

from rosa_client.runtime.choices import first_alert
from rosa_client.runtime.commands import Alert, ClearAlert, Hold, MoveTo, Play, RecoverArm, Send, TaskEnded
from rosa_client.runtime.machines.task_machine import State
from tests.unit.client.refusals import because
from tests.unit.client.runtime.stage import Stage


def waiting(first_alert: int = 1) -> Stage:
    stage = Stage(first_alert=first_alert)
    stage.start()
    stage.run_until(Alert)
    return stage


@pytest.mark.parametrize("first", ["resume", "retry", "return_to_safe_state", "abort"])
def test_the_first_decision_wins_and_the_second_is_told_who_took_which(first: str) -> None:
    stage = waiting()
    assert stage.decide(first, 1, by="anna") is None
    state, events = stage.core.state, len(stage.events)
    stage.now_s += 2.5
    said = because("alert_settled", stage.decide("abort", 1, by="ben"))
    assert said == f"alert 1 is settled: anna decided {first} 2.5 s ago"
    assert (stage.core.state, len(stage.events)) == (state, events), "a refused decision changes nothing"


def test_every_alert_gets_one_answer() -> None:
    stage = waiting()
    stage.decide("return_to_safe_state")
    assert stage.of(ClearAlert)[-1].alert_id == 1
    assert "the robot is clearing" in because("nothing_to_decide", stage.decide("resume", 2))
    again = stage.run_until(Alert)
    assert isinstance(again, Alert)
    assert again.alert_id == 2
    assert again.cause == "max_consecutive_slo_violation"
    assert again.reason.endswith("the robot is at its safe pose")


def test_who_decides_is_required() -> None:
    stage = waiting()
    said = because("missing_text", stage.decide("resume", by="  "))
    assert said == "decided_by: expected the name of who decides, got nothing"
    assert stage.core.state is State.WAITING_FOR_HUMAN


def test_an_alert_that_ended_with_its_task_says_so() -> None:
    stage = waiting()
    stage._note(stage.runtime.cancel(stage.now_s, "the client gave up"))
    assert stage.of(ClearAlert)[-1].reason == "the client gave up"
    said = because("alert_settled", stage.decide("resume", 1))
    assert said == "alert 1 is settled: the end of the task decided canceled 0.0 s ago"


def test_a_way_to_the_safe_pose_that_fails_asks_again() -> None:
    stage = waiting()
    stage.decide("return_to_safe_state")
    stage.arm_stuck = True
    again = stage.run_until(Alert, limit_s=25)
    assert isinstance(again, Alert)
    assert (again.alert_id, again.cause) == (2, "move_timeout")
    assert len(stage.of(MoveTo)) == 1


def test_after_a_decision_misses_are_counted_from_nothing() -> None:
    stage = waiting()
    stage.decide("resume")
    decided_s = stage.now_s
    stage.run_until(Alert)
    assert stage.now_s - decided_s > 3 * 0.2, "three deadlines again"


def test_the_end_of_the_task_names_who_ended_it() -> None:
    stage = waiting()
    stage.decide("abort", by="ben")
    assert stage.of(TaskEnded)[-1].reason == "ben aborted the task"


def test_a_button_from_before_a_restart_does_not_answer_the_new_alert() -> None:
    started_s = 1_790_000_000.0
    before, after = waiting(first_alert(started_s)), waiting(first_alert(started_s + 30))
    old, new = before.of(Alert)[0].alert_id, after.of(Alert)[0].alert_id
    assert new == old + 30, "a robot that raises an alert each second would come to it only now"
    said = because("unknown_alert", after.decide("resume", old))
    assert said == f"there is no alert {old}; the open one is {new}"
    assert after.core.state is State.WAITING_FOR_HUMAN
    assert after.decide("resume", new) is None


def test_numbers_of_alerts_have_six_digits_at_most_and_are_never_0() -> None:
    assert [first_alert(wall_s) for wall_s in (999_998.9, 999_999.0, 1_000_000.5)] == [999_999, 1, 2]


@pytest.mark.parametrize("choice", ["resume", "retry"])
def test_the_time_for_which_a_human_was_waited_for_is_not_the_tasks(choice: str) -> None:
    stage = Stage()
    stage.start(timeout_s=20)
    stage.run_until(Alert)
    stage.run(60)
    stage.decide(choice)
    stage.good["system1"] = ""
    stage.run(10)
    assert not stage.of(TaskEnded)
    ended = stage.run_until(TaskEnded, limit_s=11)
    assert "within its time" in ended.reason


def test_recovering_the_arm_is_offered_where_its_driver_can_and_decides_nothing_else() -> None:
    stage = Stage()
    stage.start()
    stage.run_until(Send)
    stage.arm_fault, stage.arm_recovers = "the robot is stopped by a reflex", True
    alert = stage.run_until(Alert)
    assert isinstance(alert, Alert)
    assert alert.choices == ("recover_arm", "resume", "retry", "return_to_safe_state", "abort")
    before = len(stage.events)
    assert stage.decide("recover_arm") is None
    stage.run(1.0)
    assert len(stage.of(RecoverArm)) == 1
    assert not [event for event in stage.events[before:] if isinstance(event, MoveTo | Play | ClearAlert)]
    assert stage.core.state is State.WAITING_FOR_HUMAN
    stage.arm_fault = ""
    assert stage.decide("resume", alert.alert_id, by="ben") is None, "whether to go on is another decision"
    assert stage.of(ClearAlert)[-1].alert_id == alert.alert_id


def test_recovering_an_arm_whose_node_is_gone_is_refused_instead_of_lost() -> None:
    stage = Stage()
    stage.start()
    stage.run_until(Send)
    stage.arm_fault, stage.arm_recovers = "the robot is stopped by a reflex", True
    stage.run_until(Alert)
    stage.arm_recovers = False  # its last status stays, with the fault
    stage.run(0.1)
    assert "does not answer" in because("no_arm", stage.decide("recover_arm"))
    assert not stage.of(RecoverArm)
    stage.arm_recovers = True
    stage.run(0.1)
    assert stage.decide("recover_arm") is None


@pytest.mark.parametrize(("fault", "recovers"), [("the brakes are locked", False), ("", True)])
def test_an_arm_that_cannot_recover_or_need_not_is_not_offered_it(fault: str, recovers: bool) -> None:
    stage = Stage()
    stage.start()
    stage.arm_fault, stage.arm_recovers = fault, recovers
    alert = stage.run_until(Alert)
    assert isinstance(alert, Alert)
    assert alert.choices == ("resume", "retry", "return_to_safe_state", "abort")
    because("unknown_choice", stage.decide("recover_arm"))


@pytest.mark.parametrize("choice", ["resume", "retry"])
def test_after_the_decision_the_task_goes_on(choice: str) -> None:
    stage = Stage()
    stage.start()
    stage.run_until(Alert)
    assert stage.decide(choice) is None
    assert isinstance(stage.events[-1][1], Hold | MoveTo)
    stage.answer(stage.send_of("system1"))
    assert isinstance(stage.events[-1][1], Play)


def test_returning_to_the_safe_state_still_waits_for_a_decision() -> None:
    stage = Stage()
    stage.start()
    stage.run_until(Alert)
    assert stage.decide("return_to_safe_state") is None
    stage.run(3)
    assert stage.of(MoveTo)[-1].pose == "safe"
    assert stage.core.state is State.WAITING_FOR_HUMAN
    assert stage.decide("abort") is None
    assert stage.of(TaskEnded)[-1].outcome == "aborted"


def test_a_decision_on_nothing_on_a_settled_alert_or_of_an_unknown_kind_is_refused_in_words() -> None:
    stage = Stage()
    assert "nothing to decide" in because("nothing_to_decide", stage.decide("resume", 1))
    stage.start()
    stage.run_until(Alert)
    assert "expected one of resume, retry" in because("unknown_choice", stage.decide("dance"))
    assert stage.decide("resume", 1) is None
    assert "alert 1 is settled: anna decided resume 0.0 s ago" in because(
        "alert_settled", stage.decide("abort", 1, by="ben")
    )
    stage.run_until(Alert)
    assert "alert 1 is settled: anna decided resume" in because("alert_settled", stage.decide("resume", 1))
    assert "the open one is 2" in because("alert_settled", stage.decide("resume", 1))
    assert "there is no alert 7; the open one is 2" in because("unknown_alert", stage.decide("resume", 7))
    assert "expected the name of who decides" in because("missing_text", stage.decide("resume", by=" "))
