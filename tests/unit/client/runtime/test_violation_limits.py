"""What follows when a limit of the task is reached: retries, the safe pose, a human, or the end of the task."""

from __future__ import annotations

from typing import cast

import pytest

from rosa_client.runtime.commands import Alert, Hold, MoveTo, Play, Send, TaskEnded
from rosa_client.runtime.machines.task_machine import State
from rosa_contract.config.factory import parse_factory
from rosa_contract.errors import ConfigError
from tests.unit.client.runtime.stage import MONITOR, PERIOD_S, Stage, component

SAFE_OR_REPLAN = component("safety", "stop_and_replan")


def test_a_limit_may_clear_the_cell_before_it_calls_a_human() -> None:
    stage = Stage(on_violation="return_to_safe_state")
    stage.start()
    move = stage.run_until(MoveTo)
    assert isinstance(move, MoveTo)
    assert (move.pose, move.gripper) == ("safe", "keep")
    assert not stage.of(Alert), "a human is called when the robot is there"
    alert = stage.run_until(Alert, limit_s=2)
    assert isinstance(alert, Alert)
    assert alert.cause == "max_consecutive_slo_violation"
    assert "the robot is at its safe pose" in alert.reason
    assert not [c for c in stage.run(60) if isinstance(c, Play | MoveTo | Send)]


@pytest.mark.parametrize("limit", [1, 3])
def test_a_robot_in_danger_calls_its_human_from_where_it_stands(limit: int) -> None:
    stage = Stage(component("safety", "stop_and_replan"), on_violation="return_to_safe_state", unsafe=limit)
    stage.good.update(system1="", safety="unsafe")
    stage.start()
    alert = stage.run_until(Alert)
    assert isinstance(alert, Alert)
    assert alert.cause == "max_consecutive_safety_replan"
    assert "stays here because safety says unsafe" in alert.reason
    assert not stage.of(MoveTo)


def test_another_limit_does_not_move_a_robot_in_danger_either() -> None:
    guard, watch = component("safety", "stop_and_resend"), component("monitor", "stop_and_resend")
    stage = Stage(guard, watch, on_violation="return_to_safe_state", unsafe=50)
    stage.good.update(system1="", safety="unsafe")
    stage.start()
    alert = stage.run_until(Alert, limit_s=20)
    assert isinstance(alert, Alert)
    assert alert.cause == "max_consecutive_slo_violation"
    assert not stage.of(MoveTo)


def clearing(safety: str) -> Stage:
    """A robot that drives to the safe pose because a limit was reached, to call its human there."""
    guard, watch = component("safety", safety), component("monitor", "stop_and_resend")
    stage = Stage(guard, watch, on_violation="return_to_safe_state")
    stage.good.update(safety="safe", system1="")
    stage.start()
    stage.run_until(MoveTo)
    stage.arm_stuck = True  # under way
    assert stage.core.state is State.CLEARING
    return stage


@pytest.mark.parametrize("safety", ["stop_and_resend", "stop_and_replan", "stop_and_call_human"])
def test_a_danger_on_the_way_to_a_human_stops_the_robot_at_once(safety: str) -> None:
    stage = clearing(safety)
    stage.good["safety"] = "unsafe"
    alert = stage.run_until(Alert, limit_s=1)
    assert isinstance(alert, Alert)
    assert alert.cause == "unsafe"
    assert "on the way to the safe pose because of max_consecutive_slo_violation" in alert.reason
    assert isinstance(stage.core.arm.last_order, Hold)
    assert len(stage.of(MoveTo)) == 1


def test_where_the_safe_pose_is_the_answer_to_danger_the_way_to_a_human_goes_on() -> None:
    stage = clearing("return_to_safe_state")
    stage.good["safety"] = "unsafe"
    stage.run(2)
    assert stage.core.holds.unsafe_in_a_row > 1
    assert stage.core.state is State.CLEARING


def test_safety_is_asked_from_the_beginning_of_the_way_to_a_human() -> None:
    guard = "    safety: {model: s, slo_ms: 200, freq_hz: 0.2}"
    stage = Stage(guard, component("monitor", "stop_and_resend"), on_violation="return_to_safe_state")
    stage.good.update(safety="safe", system1="")
    stage.start()
    stage.run_until(MoveTo)
    assert stage.core.calls["safety"].sent_s == pytest.approx(stage.now_s, abs=2 * PERIOD_S)


def test_on_the_way_to_a_human_a_miss_calls_him_at_once_where_that_is_the_fallback() -> None:
    stage = clearing("stop_and_call_human")
    del stage.good["safety"]
    alert = stage.run_until(Alert, limit_s=1)
    assert isinstance(alert, Alert)
    assert alert.cause == "slo_missed"


def test_on_the_way_to_a_human_only_danger_counts() -> None:
    stage = clearing("stop_and_resend")
    first = len(stage.events)
    del stage.good["safety"]  # no answer any more
    stage.run(2)
    asked = {c.component for _, c in stage.events[first:] if isinstance(c, Send)}
    assert asked == {"safety"}
    assert stage.core.state is State.CLEARING


def test_a_human_is_called_although_the_way_to_the_safe_pose_failed() -> None:
    stage = Stage(on_violation="return_to_safe_state")
    stage.start()
    stage.run_until(MoveTo)
    stage.arm_stuck = True
    alert = stage.run_until(Alert, limit_s=25)
    assert isinstance(alert, Alert)
    assert alert.cause == "move_timeout"
    assert "because of max_consecutive_slo_violation" in alert.reason


def test_a_limit_may_give_the_task_up() -> None:
    stage = Stage(on_violation="abort")
    stage.start()
    ended = stage.run_until(TaskEnded)
    assert isinstance(ended, TaskEnded)
    assert (ended.outcome, stage.core.state) == ("failed", State.IDLE)
    assert "3 times in a row" in ended.reason
    assert isinstance(stage.core.arm.last_order, Hold)
    assert not stage.of(Alert)


# -- stops that come and go -------------------------------------------------------------------------------------------


def every_other_missed(stage: Stage, component: str, limit_s: float = 30.0) -> Alert:
    """The component answers only every other time, never too seldom in a row, until a human is called."""
    begun_s = stage.now_s
    while not stage.of(Alert):
        assert stage.now_s < begun_s + limit_s, f"{stage.core.state} for ever: {stage.actions_taken[-6:]}"
        stage.refuse(stage.send_of(component), "overloaded", "its queue is full")
        if not stage.of(Alert):
            stage.answer(stage.send_of(component), "safe")
    return cast(Alert, stage.of(Alert)[0])


def test_a_reset_that_is_interrupted_again_and_again_calls_a_human() -> None:
    """Found by a night of random faults: safety answered every other time, and the robot reset for ever."""
    stage = Stage(SAFE_OR_REPLAN, MONITOR, misses=3)
    stage.good.update(system1="", safety="safe")
    stage.start()
    for _ in range(2):
        stage.answer(stage.send_of("monitor"), verdict="failed")
    assert stage.core.state is State.RESETTING
    stage.good.update(monitor="ongoing")
    del stage.good["safety"]
    alert = every_other_missed(stage, "safety")
    assert (alert.cause, stage.core.state) == ("max_stops_without_action", State.WAITING_FOR_HUMAN)
    assert "its queue is full" in alert.reason and "10 stops in a row" in alert.reason
    assert isinstance(stage.core.arm.last_order, Hold)
    assert stage.decide("resume") is None
    assert stage.core.holds.stops_in_a_row == 0


def test_two_components_that_miss_in_turn_hold_no_robot_for_ever() -> None:
    """While one recovers the other misses, so that something holds the robot at all times."""
    names = ("safety", "cable_watch")
    stage = Stage(*(component(name, "stop_and_resend", slo_ms=300) for name in names))
    stage.start()
    asked: dict[str, Send] = {}
    while not stage.of(Alert):
        assert stage.now_s < 160.0
        asked |= {c.component: c for c in stage.run(PERIOD_S) if isinstance(c, Send)}
        held = [name for name in names if name in stage.core.holds.by]
        assert held or stage.core.holds.stops_in_a_row == 0
        if len(held) == 2 and held[0] in asked:
            stage.answer(asked.pop(held[0]), "safe")
            names = (names[1], names[0])
        for name in sorted((set(names) - set(held)) & set(asked)):
            stage.refuse(asked.pop(name), "overloaded")
    assert cast(Alert, stage.of(Alert)[0]).cause == "max_stops_without_action"
    assert max(calls.consecutive_missed for calls in stage.core.calls.values()) < 3


def test_a_robot_that_acts_between_its_stops_works_on() -> None:
    stage = Stage(component("safety", "stop_and_replan"))
    stage.good.update(system1="")
    stage.start()
    for _ in range(30):
        stage.refuse(stage.send_of("safety"), "overloaded")
        stage.answer(stage.send_of("safety"), "safe")
        for _ in range(4):
            stage.answer(stage.send_of("safety"), "safe")
    assert not stage.of(Alert)
    assert stage.core.counters.rounds >= 30


@pytest.mark.parametrize("policy", ["stop_and_call_human", "return_to_safe_state", "abort"])
def test_after_the_last_retry_follows_what_the_task_says(policy: str) -> None:
    stage = Stage(MONITOR, on_retries=policy)
    stage.good.update(system1="", monitor="failed")
    stage.start()
    last = stage.run_until(TaskEnded if policy == "abort" else Alert)
    assert stage.core.counters.retries == 1
    assert "failed again after 1 retry" in last.reason
    assert ("safe" in [c.pose for c in stage.of(MoveTo)]) is (policy == "return_to_safe_state")


@pytest.mark.parametrize(
    "key", ["task_retry: {on_max_task_retries", "safety_and_slo_violation: {on_max_violation"]
)
def test_a_policy_that_does_not_exist_is_named_with_those_that_do(key: str) -> None:
    text = (
        "server_cluster: {num_servers: 1}\nrobot_fleet: [{task: t, num_robots: 1}]\n"
        f"t:\n  {key}: return_to_safe}}\n  pipeline: {{action_period_ms: 400}}\n"
        "  components: {system1: {model: a, slo_ms: 200}}\n"
    )
    with pytest.raises(ConfigError, match="return_to_safe_state"):
        parse_factory(text)
