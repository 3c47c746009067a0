"""Asynchronous execution: the next chunk is inferred while one plays, joins it in time, and never after a stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rosa_client.runtime.commands import CallEnded, Hold, Play, Send
from rosa_client.runtime.machines.task_machine import State
from rosa_contract.config.robot import WITHOUT_GRIPPER
from rosa_contract.wire.progress import Progress
from tests.unit.client.runtime.stage import PERIOD_S, ROBOT, SYSTEM2, Stage

ASYNCHRONOUS = "execution: asynchronous"
STEP_S = 0.05
WATCH = "    monitor: {model: m, slo_ms: 300, freq_hz: 50}"
CHUNK = np.linspace(0.0, 0.08, 16)[:, None] * np.ones(3)


def working(
    *components: str, latency_s: float = 0.1, good: dict[str, str] | None = None, **options: object
) -> tuple[Stage, float]:
    """A robot that plays its first chunk, which took so long to come; and when it began."""
    stage = Stage(*components, pipeline=ASYNCHRONOUS, **options)
    stage.good = dict(good or {})
    stage.start()
    request = stage.send_of("system1")
    assert request.overlap is None, "the first chunk joins nothing"
    stage.run(latency_s)
    stage.answer(request, actions=CHUNK, step_s=STEP_S)
    assert stage.core.state is State.EXECUTING
    return stage, stage.now_s


def joined(stage: Stage, request: Send, **answer: object) -> Play:
    [play] = [
        one for one in stage.answer(request, actions=CHUNK, step_s=STEP_S, **answer) if isinstance(one, Play)
    ]
    return play


def test_the_next_chunk_is_asked_for_so_that_it_comes_just_in_time() -> None:
    stage, began_s = working(latency_s=0.1)
    stage.send_of("system1")
    assert stage.core.state is State.EXECUTING
    assert stage.now_s - began_s == pytest.approx(0.4 - 0.1 - 0.02, abs=2 * PERIOD_S)


def test_the_slowest_of_the_latest_calls_counts() -> None:
    stage, _ = working(latency_s=0.1)
    request = stage.send_of("system1")
    stage.run(0.18)
    joined(stage, request)
    began_s, expected_s = stage.now_s, 0.18
    for _ in range(10):
        request = stage.send_of("system1")
        assert stage.core.chunk.ends_s - stage.now_s == pytest.approx(expected_s + 0.02, abs=2 * PERIOD_S)
        stage.run(0.05)
        joined(stage, request)
    request = stage.send_of("system1")
    assert stage.core.chunk.ends_s - stage.now_s == pytest.approx(0.05 + 0.02, abs=2 * PERIOD_S)
    assert stage.now_s > began_s


def test_the_request_carries_what_plays_meanwhile() -> None:
    stage, began_s = working(latency_s=0.1)
    request = stage.send_of("system1")
    assert request.overlap is not None
    first = int((stage.now_s - began_s) / STEP_S + 1e-6)
    assert np.allclose(request.overlap.actions, CHUNK[first:])
    assert request.overlap.step_s == pytest.approx(STEP_S)
    assert request.overlap.frozen == 8 - first, "until the chunk's time is over, where the arm would hold"


def test_a_robot_without_a_gripper_sends_its_joints_only() -> None:
    """As its model answers: a request in which a column too many comes back is one that no model can join."""
    stage = Stage(pipeline=ASYNCHRONOUS, robot=replace(ROBOT, gripper=WITHOUT_GRIPPER))
    stage.start()
    stage.answer(stage.send_of("system1"), actions=CHUNK[:, :2], step_s=STEP_S)
    request = stage.send_of("system1")
    assert request.overlap is not None
    assert request.overlap.actions.shape[1] == 2
    [play] = [
        one for one in stage.answer(request, actions=CHUNK[:, :2], step_s=STEP_S) if isinstance(one, Play)
    ]
    assert play.actions.shape[1] == 2


def test_the_request_says_how_long_the_robot_still_acts_and_where_it_is_in_its_task() -> None:
    stage, began_s = working(latency_s=0.1)
    [first] = [one for _, one in stage.events if isinstance(one, Send)]
    assert first.progress == Progress(1, 0, 0.0, "default"), "the task begins with it"
    second = stage.send_of("system1").progress
    assert second is not None
    assert (second.task, second.round) == (1, 1)
    assert second.acts_ms == pytest.approx((began_s + 0.4 - stage.now_s) * 1000)
    stage._note(stage.runtime.cancel(stage.now_s, "enough"))
    stage.start()
    again = stage.send_of("system1").progress
    assert again == Progress(2, 0, 0.0, "default"), "another task has another number"


def test_the_overlap_is_dropped_by_time() -> None:
    stage, began_s = working(latency_s=0.1)
    request = stage.send_of("system1")
    assert request.overlap is not None
    row_s = began_s + STEP_S * int((stage.now_s - began_s) / STEP_S + 1e-6)
    stage.run(0.07)
    play = joined(stage, request)
    assert play.skip_s == pytest.approx(stage.now_s - row_s)
    assert play.skip_s + play.duration_s == pytest.approx(request.overlap.frozen * STEP_S + 0.4)
    assert stage.core.state is State.EXECUTING


def test_an_arm_that_is_slowed_down_drops_less_of_the_chunk() -> None:
    stage, began_s = working(latency_s=0.1, robot=replace(ROBOT, velocity_scale=0.5))
    request = stage.send_of("system1")
    row_s = began_s + 2 * STEP_S * int((stage.now_s - began_s) / (2 * STEP_S) + 1e-6)
    stage.run(0.07)
    assert joined(stage, request).skip_s == pytest.approx(0.5 * (stage.now_s - row_s))


def test_a_late_answer_lets_the_chunk_play_to_its_end_and_the_time_stands_while_the_arm_holds() -> None:
    stage, began_s = working(latency_s=0.05)
    request = stage.send_of("system1")
    row_s = began_s + STEP_S * int((stage.now_s - began_s) / STEP_S + 1e-6)
    ends_s = stage.core.chunk.ends_s
    stage.run(0.15)
    assert stage.core.state is State.INFERRING, "the arm holds, and the call is still in flight"
    assert not [one for one in stage.of(CallEnded) if one.request_id == request.request_id]
    assert joined(stage, request).skip_s == pytest.approx(ends_s - row_s)


def test_a_missed_deadline_runs_the_fallback_at_once() -> None:
    stage, _ = working(latency_s=0.19)
    request = stage.send_of("system1")
    stage.run(0.23)
    assert stage.of(Hold)
    assert ("stop_and_resend", "slo_missed") in stage.actions_taken
    plays = len(stage.of(Play))
    stage.answer(request, actions=CHUNK, step_s=STEP_S)
    assert len(stage.of(Play)) == plays


@pytest.mark.parametrize(
    "trouble", ["emergency stop", "arm fault", "cut short", "blind", "cancel", "monitor"]
)
def test_an_answer_to_what_was_seen_before_a_stop_is_never_executed(trouble: str) -> None:
    stage, _ = working(WATCH, latency_s=0.19, good={"monitor": "ongoing"})
    request = stage.send_of("system1")
    assert stage.core.calls["system1"].in_flight
    if trouble == "emergency stop":
        stage.emergency_stop = True
    elif trouble == "arm fault":
        stage.arm_fault = "reflex"
    elif trouble == "cut short":
        stage.cut_short = "no sign of life"
    elif trouble == "blind":
        stage.late_s["front"] = 5.0
    elif trouble == "cancel":
        stage._note(stage.runtime.cancel(stage.now_s, "enough"))
    else:
        stage.good["monitor"] = "failed"
        stage.run(0.05)
    stage.run(PERIOD_S)
    plays = len(stage.of(Play))
    [ended] = [one for one in stage.of(CallEnded) if one.request_id == request.request_id]
    assert ended.ending == "cancelled"
    stage.answer(request, actions=CHUNK, step_s=STEP_S)
    assert len(stage.of(Play)) == plays


def test_a_chunk_whose_time_has_passed_is_not_joined_and_the_next_is_asked_for_at_rest() -> None:
    stage, _ = working(latency_s=0.19)
    request = stage.send_of("system1")
    stage.run(0.17)
    stage.answer(request, actions=CHUNK[:2], step_s=STEP_S)
    assert ("discard", "chunk_is_over") in stage.actions_taken
    again = stage.send_of("system1")
    assert stage.core.state is State.INFERRING
    assert again.overlap is None


def test_an_impossible_chunk_runs_the_fallback() -> None:
    stage, _ = working(latency_s=0.1)
    stage.answer(stage.send_of("system1"), actions=np.full((16, 3), 9.0), step_s=STEP_S)
    assert stage.core.state is not State.EXECUTING
    assert ("stop_and_resend", "invalid_actions") in stage.actions_taken


def test_an_action_that_needs_a_new_plan_waits_for_what_system_2_sees_at_its_end() -> None:
    stage = Stage(SYSTEM2, pipeline=ASYNCHRONOUS, ratio=0.5)
    stage.start()
    stage.answer(stage.send_of("system2"), text="left")
    stage.answer(stage.send_of("system1"), actions=CHUNK, step_s=STEP_S)
    stage.answer(stage.send_of("system1"), actions=CHUNK, step_s=STEP_S)
    assert stage.core.counters.rounds == 2
    assert stage.core.state is State.EXECUTING, "two chunks of one plan, one joining the other"
    sent = stage.send_of("system2")
    assert stage.core.state is State.INFERRING
    assert not stage.core.calls["system1"].in_flight
    stage.answer(sent, text="right")
    assert stage.send_of("system1").prompt == "right"


def test_the_horizon_counts_after_the_frozen_steps() -> None:
    stage = Stage(pipeline=f"{ASYNCHRONOUS}, horizon: {{policy: threshold, t: 0.4, min: 2}}")
    stage.start()
    request = stage.send_of("system1")
    stage.run(0.1)
    stage.answer(request, actions=CHUNK, step_s=STEP_S, horizon=8)
    request = stage.send_of("system1")
    assert request.overlap is not None
    stage.run(0.1)
    play = joined(stage, request, horizon=5)
    assert play.skip_s + play.duration_s == pytest.approx((request.overlap.frozen + 5) * STEP_S)
    request = stage.send_of("system1")
    stage.answer(request, actions=CHUNK, step_s=STEP_S, horizon=16)
    assert ("stop_and_resend", "invalid_actions") in stage.actions_taken, (
        "no chunk has 16 steps beside the frozen ones"
    )


def test_the_rate_of_the_schedule_holds() -> None:
    stage, _ = working(latency_s=0.1)
    stage.rates_hz = {"system1": 1.0}
    for _ in range(4):
        stage.answer(stage.send_of("system1"), actions=CHUNK, step_s=STEP_S)
    sent_s = [at_s for at_s, one in stage.events if isinstance(one, Send)]
    assert min(np.diff(sent_s)) >= 1.0 - PERIOD_S


def test_a_long_chunk_is_not_sent_whole() -> None:
    stage = Stage(pipeline=ASYNCHRONOUS)
    stage.start()
    request = stage.send_of("system1")
    stage.run(0.05)
    stage.answer(request, actions=np.zeros((1000, 3)), step_s=0.01)
    request = stage.send_of("system1")
    assert request.overlap is not None
    assert request.overlap.actions.shape == (256, 3)
