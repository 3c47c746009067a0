"""The robot's core as stories: what it does when all is well, and what it does when something is not."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_client.runtime.commands import Alert, Decision, Hold, MoveTo, Play, Send, TaskEnded
from rosa_client.runtime.machines.machine import IllegalEvent
from rosa_client.runtime.machines.task_machine import State
from tests.unit.client.runtime.stage import MONITOR, PERIOD_S, SAFETY, Stage, component


def test_a_round_is_look_infer_play_and_look_again() -> None:
    stage = Stage()
    stage.start()
    request = stage.send_of("system1")
    assert (request.budget_ms, request.prompt) == (200, "default")
    [*_, play] = stage.answer(request)
    assert isinstance(play, Play)
    assert play.duration_s == pytest.approx(0.4)
    played_at = stage.now_s
    stage.send_of("system1")
    assert stage.now_s >= played_at + 0.4, "synchronous execution: nothing is inferred while the chunk plays"


def test_the_next_observation_was_taken_after_the_motion_ended() -> None:
    stage = Stage()
    stage.start()
    stage.answer(stage.send_of("system1"))
    stage.silent.add("front")
    sent = [c for c in stage.run(0.48) if isinstance(c, Send)]
    assert not sent, "the newest frame is older than the end of the motion"


def test_a_missed_deadline_stops_the_arm_and_sends_again() -> None:
    stage = Stage()
    stage.start()
    first = stage.send_of("system1")
    commands = stage.run(0.25)
    assert [type(c) for c in commands if isinstance(c, Hold | Send)] == [Hold, Send]
    assert ("stop_and_resend", "slo_missed") in stage.actions_taken
    second = stage.of(Send)[-1]
    assert second.request_id > first.request_id


def test_the_stop_comes_within_one_control_period_of_the_deadline() -> None:
    stage = Stage(MONITOR)
    stage.start()
    monitor = stage.send_of("monitor")
    stage.answer(
        stage.of(Send)[-1] if stage.of(Send)[-1].component == "system1" else stage.send_of("system1")
    )
    sent_at = next(t for t, c in stage.events if isinstance(c, Send) and c.request_id == monitor.request_id)
    stage.run_until(Hold)
    assert stage.now_s - (sent_at + 0.3) <= 2 * PERIOD_S


def test_a_late_answer_is_never_executed() -> None:
    stage = Stage()
    stage.start()
    request = stage.send_of("system1")
    stage.run(0.25)
    commands = stage.answer(request)
    assert not any(isinstance(c, Play) for c in commands)
    assert stage.core.calls["system1"].late_discarded == 1
    assert ("discard", "late_result") in stage.actions_taken


def test_an_answer_that_arrives_before_the_tick_but_after_the_deadline_is_late_too() -> None:
    stage = Stage()
    stage.start()
    request = stage.send_of("system1")
    stage.now_s += 0.2001
    commands = stage.answer(request)
    assert not any(isinstance(c, Play) for c in commands)
    assert stage.core.calls["system1"].missed == 1


def test_an_answer_counts_once() -> None:
    stage = Stage()
    stage.start()
    request = stage.send_of("system1")
    stage.answer(request)
    assert not any(isinstance(c, Play) for c in stage.answer(request))


def test_three_misses_in_a_row_call_a_human_and_then_nothing_moves() -> None:
    stage = Stage()
    stage.start()
    stage.send_of("system1")
    stage.link_ready = False
    alert = stage.run_until(Alert)
    assert isinstance(alert, Alert)
    assert alert.cause == "max_consecutive_slo_violation"
    assert "the cable is cut" in alert.reason
    assert stage.core.calls["system1"].missed == 3
    moved = [c for c in stage.run(60) if isinstance(c, Play | MoveTo | Send)]
    assert not moved


def test_a_result_in_time_resets_the_count() -> None:
    stage = Stage()
    stage.start()
    for _ in range(3):
        stage.send_of("system1")
        stage.run(0.25)
        stage.answer(stage.of(Send)[-1])
    assert not stage.of(Alert)


def test_a_server_that_is_absent_at_the_start_is_waited_for_and_then_reported() -> None:
    stage = Stage()
    stage.link_ready = False
    stage.start()
    assert not [c for c in stage.run(30) if isinstance(c, Send | Alert)]
    alert = stage.run_until(Alert, limit_s=60)
    assert isinstance(alert, Alert)
    assert alert.cause == "not_ready"
    assert "the cable is cut" in alert.reason


def test_the_monitor_ends_the_task_after_two_equal_verdicts() -> None:
    stage = Stage(MONITOR)
    stage.start()
    stage.answer(stage.send_of("monitor"), verdict="done")
    assert not stage.of(TaskEnded)
    stage.answer(stage.send_of("monitor"), verdict="done")
    assert stage.of(TaskEnded)[-1].outcome == "done"
    assert isinstance([c for _, c in stage.events if isinstance(c, Hold | Play)][-1], Hold)


@pytest.mark.parametrize("fallback", ["stop_and_resend", "stop_and_replan", "return_to_safe_state"])
def test_a_task_that_is_done_is_done_also_while_safety_holds_the_robot(fallback: str) -> None:
    stage = Stage(MONITOR, component("safety", fallback), unsafe=100)
    stage.good.update(safety="unsafe", monitor="ongoing")
    stage.start()
    stage.run(3.0)
    assert stage.core.state is State.HOLDING and stage.core.holds.by
    stage.good["monitor"] = "done"
    after = stage.run(2.0)
    assert [c.outcome for c in after if isinstance(c, TaskEnded)] == ["done"]
    assert not [c for c in after if isinstance(c, Play | MoveTo)]
    assert isinstance(stage.core.arm.last_order, Hold)


def test_a_robot_that_was_held_at_the_end_of_a_task_begins_the_next_one_only_when_safety_says_safe() -> None:
    stage = Stage(MONITOR, component("safety", "stop_and_replan"), unsafe=100)
    stage.good.update(system1="", safety="unsafe", monitor="done")
    stage.start()
    stage.run_until(TaskEnded)
    first = len(stage.events)
    stage.good["monitor"] = "ongoing"
    stage.start()
    stage.run(3.0)
    assert not [c for _, c in stage.events[first:] if isinstance(c, Play | MoveTo)]
    stage.good["safety"] = "safe"
    assert isinstance(stage.run_until(Play, limit_s=1.5), Play)


def test_a_task_does_not_end_as_done_on_the_way_to_the_safe_pose() -> None:
    stage = Stage(component("monitor", "stop_and_resend"), SAFETY)
    stage.start()
    stage.answer(stage.send_of("safety"), verdict="unsafe")
    assert stage.core.state is State.RETURNING
    stage.answer(stage.send_of("monitor"), verdict="done")
    assert stage.core.state is State.RETURNING and not stage.of(TaskEnded)


def test_what_the_monitor_says_besides_ongoing_is_told_once_per_kind_and_changes_nothing_else() -> None:
    stage = Stage(MONITOR)
    stage.good["system1"] = ""
    stage.start()
    for text in (
        "out_of_range: too dark: mean 41",
        "out_of_range: too dark: mean 40",
        "",
        "out_of_range: too dark: 39",
        "dazzled",
        "dazzled",
    ):
        stage.answer(stage.send_of("monitor"), verdict="ongoing", text=text)
    told = [one.reason for one in stage.of(Decision) if one.cause == "monitor_says"]
    assert told == ["out_of_range: too dark: mean 41", "out_of_range: too dark: 39", "dazzled"]
    assert not stage.of(TaskEnded) and not stage.of(Alert)


def test_a_failed_attempt_is_reset_and_retried_and_then_escalated() -> None:
    stage = Stage(MONITOR)
    stage.good["system1"] = ""
    stage.start()
    for _ in range(2):
        stage.answer(stage.send_of("monitor"), verdict="failed")
    assert stage.core.state is State.RESETTING
    for _ in range(2):
        stage.answer(stage.send_of("monitor"), verdict="failed")
    assert stage.of(Alert)[-1].cause == "max_task_retries"


def test_an_unsafe_verdict_drives_to_the_safe_pose_and_safe_clears_it() -> None:
    stage = Stage(SAFETY)
    stage.start()
    stage.answer(stage.send_of("safety"), verdict="unsafe")
    assert stage.of(MoveTo)[-1].pose == "safe"
    stage.good["safety"] = "unsafe"
    stage.run(1.3)
    assert stage.core.state is State.HOLDING
    assert not stage.of(Play)
    stage.good.update(safety="safe", system1="")
    stage.run(0.5)
    assert stage.of(Play)


def test_actions_asked_for_before_a_stop_are_not_executed_after_it() -> None:
    stage = Stage(MONITOR)
    stage.start()
    asked = stage.send_of("system1")
    stage._note(stage.runtime.tick(stage.now_s, stage.inputs()))
    monitor = next(c for c in stage.of(Send) if c.component == "monitor")
    stage.refuse(monitor, "failed")
    assert stage.core.state is State.HOLDING
    stage.good["monitor"] = "ongoing"
    stage.core.calls["system1"].deadline_s += 10  # were it still in flight, its answer would count as in time
    stage.run(0.4)
    assert stage.core.state is State.INFERRING
    assert not any(isinstance(c, Play) for c in stage.answer(asked))


def test_a_move_that_never_ends_calls_a_human() -> None:
    stage = Stage(SAFETY)
    stage.start()
    stage.answer(stage.send_of("safety"), verdict="unsafe")
    stage.good["safety"] = "safe"
    stage.arm_stuck = True
    alert = stage.run_until(Alert, limit_s=25)
    assert isinstance(alert, Alert)
    assert alert.cause == "move_timeout"


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (np.zeros((4, 8)), "expected (1..1024, 3), got (4, 8)"),
        (np.full((4, 3), np.nan), "NaN"),
        (np.full((4, 3), 1.5), "joint 1 is 1.5 rad, expected -1..1"),
        (np.zeros(3), "got (3,)"),
        ([[0, 0, 0.5]], "gripper is 0.5 m, expected 0..0.08"),
    ],
)
def test_an_impossible_chunk_is_refused_and_counts_as_a_miss(actions: object, words: str) -> None:
    stage = Stage()
    stage.start()
    commands = stage.answer(stage.send_of("system1"), actions=actions)
    assert not any(isinstance(c, Play) for c in commands)
    assert words in stage.core.last_decision.reason
    assert stage.core.calls["system1"].missed == 1


@pytest.mark.parametrize("status", ["expired", "overloaded", "unavailable", "failed", "invalid", "replaced"])
def test_a_negative_answer_stops_at_once_but_is_not_resent_before_its_deadline(status: str) -> None:
    stage = Stage()
    stage.start()
    request = stage.send_of("system1")
    sent_at = stage.now_s
    commands = stage.refuse(request, status)
    assert any(isinstance(c, Hold) for c in commands)
    stage.send_of("system1")
    assert stage.now_s >= sent_at + 0.2 - 1e-9, (
        "a server that says no at once must not use up all tries at once"
    )


def test_a_task_that_takes_too_long_ends_as_timed_out() -> None:
    stage = Stage()
    stage.start(timeout_s=2.0)
    while not stage.of(TaskEnded):
        stage.answer(stage.send_of("system1")) if stage.core.state is State.INFERRING else stage.run(0.1)
    assert stage.of(TaskEnded)[-1].outcome == "timed_out"


def test_cancelling_holds_and_ends() -> None:
    stage = Stage()
    stage.start()
    stage.answer(stage.send_of("system1"))
    stage._note(stage.runtime.cancel(stage.now_s, "enough"))
    assert [type(c) for c in (stage.of(Hold)[-1], stage.of(TaskEnded)[-1])] == [Hold, TaskEnded]
    assert stage.of(TaskEnded)[-1] == TaskEnded("canceled", "enough", 1)
    assert stage.core.state is State.IDLE


def test_a_runtime_that_is_taken_out_of_work_holds_and_aborts_with_the_cause() -> None:
    stage = Stage()
    assert stage.runtime.abort(stage.now_s, "deactivated", "no task") == []
    stage.start()
    stage.answer(stage.send_of("system1"))
    stage._note(stage.runtime.abort(stage.now_s, "deactivated", "the node was deactivated"))
    assert stage.of(Hold)[-1].sequence > stage.of(Play)[-1].sequence
    assert stage.of(TaskEnded)[-1] == TaskEnded("aborted", "the node was deactivated", 1)
    assert stage.core.last_decision is not None and stage.core.last_decision.cause == "deactivated"
    assert stage.core.state is State.IDLE


def test_a_second_start_is_illegal_and_changes_nothing() -> None:
    stage = Stage()
    stage.start()
    state = stage.core.state
    with pytest.raises(IllegalEvent, match="event 'start' is not allowed in state"):
        stage.start()
    assert stage.core.state is state
