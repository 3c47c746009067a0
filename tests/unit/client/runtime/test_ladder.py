"""The ladder of fallbacks as stories: each component with each fallback, the worst wins, and what limits lead to."""

from __future__ import annotations

import pytest

from rosa_client.runtime.commands import Alert, CallEnded, Decision, Hold, MoveTo, Play, Send, TaskEnded
from rosa_client.runtime.task_machine import State
from rosa_contract.config import parse_factory
from rosa_contract.errors import ConfigError
from rosa_contract.fallbacks import FALLBACK_NAMES
from tests.unit.client.runtime.stage import MONITOR, PERIOD_S, SAFETY, SYSTEM2, Stage

PERIODIC = ("safety", "monitor", "cable_watch")


def component(name: str, fallback: str, slo_ms: int = 200) -> str:
    freq = ", freq_hz: 5" if name in PERIODIC else ""
    return f"    {name}: {{model: {name}, slo_ms: {slo_ms}, fallback: {fallback}{freq}}}"


@pytest.mark.parametrize("fallback", FALLBACK_NAMES)
@pytest.mark.parametrize("name", ["system1", "system2", *PERIODIC])
def test_any_component_may_have_any_fallback(name: str, fallback: str) -> None:
    """One call is missed while everything else is answered; the robot does what the fallback says, and goes on."""
    others = [one for one in ("system2", "safety", "monitor") if one != name]
    lines = [component(one, "stop_and_resend") for one in others]
    stage = Stage(*lines, component(name, fallback)) if name != "system1" else Stage(*lines, system1=fallback)
    stage.good = {"system1": "", "system2": "", "safety": "safe", "monitor": "ongoing", "cable_watch": "ok"}
    stage.start()
    stage.run(2.0)
    assert stage.of(Play)
    answered = stage.good.pop(name)
    stage.send_of(name)
    stage.core.plan = "the last plan"
    first = len(stage.events)
    stage.run(0.21)
    stage.good[name] = answered
    done = [command for _, command in stage.events[first:]]
    assert stage.core.last_decision
    assert (fallback, "slo_missed") in stage.actions_taken
    assert any(isinstance(c, Alert) for c in done) is (fallback == "stop_and_call_human")
    assert [c.pose for c in done if isinstance(c, MoveTo)] == ["safe"] * (fallback == "return_to_safe_state")
    assert (stage.core.plan is None) is (fallback in ("stop_and_replan", "return_to_safe_state"))
    plays = len(stage.of(Play))
    stage.run(3.0)
    assert (len(stage.of(Play)) > plays) is (fallback != "stop_and_call_human")


def test_when_two_miss_at_once_the_worse_fallback_wins() -> None:
    stage = Stage(component("safety", "return_to_safe_state"), component("monitor", "stop_and_resend"))
    stage.start()
    stage.send_of("monitor")
    assert {calls.name for calls in stage.core.calls.values() if calls.in_flight} >= {"safety", "monitor"}
    stage.run(0.21)
    assert stage.core.state is State.RETURNING
    assert [type(c) for _, c in stage.events if isinstance(c, Hold | MoveTo)][-1] is MoveTo


def test_a_worse_fallback_takes_over_from_one_that_holds_already() -> None:
    stage = Stage(SAFETY)
    stage.good["safety"] = "safe"
    stage.start()
    stage.refuse(stage.send_of("system1"), "failed")
    assert stage.core.state is State.HOLDING
    del stage.good["safety"]
    stage.answer(stage.send_of("safety"), verdict="unsafe")
    assert stage.core.state is State.RETURNING


def test_a_milder_fallback_does_not_end_the_way_to_the_safe_pose() -> None:
    stage = Stage(SAFETY, component("monitor", "stop_and_resend"))
    stage.start()
    stage.answer(stage.send_of("safety"), verdict="unsafe")
    moves = stage.of(MoveTo)
    stage.run(0.3)  # the monitor misses
    assert ("stop_and_resend", "slo_missed") in stage.actions_taken
    assert stage.core.state is State.RETURNING
    assert stage.of(MoveTo) == moves


def on_the_way_to_the_safe_pose(safety: str) -> Stage:
    """The monitor has missed a deadline, and somebody steps into the way."""
    stage = Stage(component("safety", safety), component("monitor", "return_to_safe_state"))
    stage.good["safety"] = "safe"
    stage.start()
    stage.send_of("monitor")
    stage.run(0.21)
    assert stage.core.state is State.RETURNING
    stage.good["safety"] = "unsafe"
    return stage


def test_a_danger_stops_the_move_to_the_safe_pose_which_goes_on_when_it_is_over() -> None:
    stage = on_the_way_to_the_safe_pose("stop_and_resend")
    first = len(stage.events)
    stage.good["monitor"] = "ongoing"
    stage.run(1.0)
    assert stage.core.state is State.HOLDING
    assert [type(c) for _, c in stage.events[first:] if isinstance(c, Hold | MoveTo)] == [Hold]
    stage.good["safety"] = "safe"
    stage.run(0.3)
    assert stage.core.state is State.RETURNING
    moves = [c.pose for c in stage.of(MoveTo)]
    assert moves == ["safe", "safe"]
    assert ("return_to_safe_state", "recovered") in stage.actions_taken
    stage.good["system1"] = ""
    stage.run_until(Play, limit_s=1.5)  # there, and on with a new plan


def test_a_danger_that_stays_on_the_way_to_the_safe_pose_calls_a_human() -> None:
    stage = on_the_way_to_the_safe_pose("stop_and_replan")
    stage.good["monitor"] = "ongoing"
    alert = stage.run_until(Alert)
    assert isinstance(alert, Alert)
    assert alert.cause == "max_consecutive_safety_replan"
    assert len(stage.of(MoveTo)) == 1


def test_a_robot_that_stands_in_danger_drives_to_the_safe_pose_only_when_it_is_over() -> None:
    stage = Stage(component("safety", "stop_and_resend"), component("monitor", "return_to_safe_state"))
    stage.good["safety"] = "unsafe"
    stage.start()
    stage.run(0.3)
    assert ("return_to_safe_state", "slo_missed") in stage.actions_taken
    assert stage.core.state is State.HOLDING
    assert not stage.of(MoveTo)
    stage.good.update(safety="safe", monitor="ongoing")
    stage.run(0.3)
    assert stage.core.state is State.RETURNING


def test_a_danger_whose_fallback_is_the_safe_pose_does_not_stop_the_move_there() -> None:
    stage = on_the_way_to_the_safe_pose("return_to_safe_state")
    stage.good["monitor"] = "ongoing"
    stage.run(0.5)
    assert ("return_to_safe_state", "slo_missed") in stage.actions_taken
    assert stage.core.state is State.RETURNING
    assert len(stage.of(MoveTo)) == 1


def test_an_unsafe_verdict_stops_the_robot_whatever_the_fallback_is() -> None:
    stage = Stage(SYSTEM2, component("safety", "use_last_plan"))
    stage.good.update(system1="", system2="")
    stage.start()
    stage.answer(stage.send_of("safety"), verdict="unsafe")
    assert isinstance(stage.core.last_order, Hold)
    assert stage.core.state is State.HOLDING


def test_a_safety_verdict_that_says_neither_counts_as_none() -> None:
    stage = Stage(SAFETY)
    stage.start()
    stage.answer(stage.send_of("safety"), verdict="looks fine to me")
    assert "expected safe or unsafe, got 'looks fine to me'" in stage.core.last_decision.reason
    assert stage.core.state is State.RETURNING


def test_what_the_server_says_is_only_text() -> None:
    stage = Stage()
    stage.start()
    request = stage.send_of("system1")
    stage.refuse(request, "failed", "KeyError: {0} {slo}")
    assert "KeyError: {0} {slo} (1 of 3 in a row)" in stage.core.last_decision.reason


def test_unsafe_again_and_again_calls_a_human_and_safe_counts_anew() -> None:
    stage = Stage(component("safety", "stop_and_replan"), unsafe=3)
    stage.good.update(system1="")
    stage.start()
    for verdict in ("unsafe", "unsafe", "safe", "unsafe", "unsafe"):
        stage.answer(stage.send_of("safety"), verdict=verdict)
        assert not stage.of(Alert)
    stage.answer(stage.send_of("safety"), verdict="unsafe")
    assert stage.of(Alert)[-1].cause == "max_consecutive_safety_replan"


@pytest.mark.parametrize("policy", ["return_to_safe_state", "abort"])
def test_a_component_that_calls_a_human_does_so_although_another_reaches_its_limit(policy: str) -> None:
    stage = Stage(component("safety", "stop_and_call_human"), on_violation=policy, misses=1)
    stage.good["safety"] = "safe"
    stage.start()
    stage.send_of("system1")
    del stage.good["safety"]
    stage.core.calls["safety"].deadline_s = stage.core.calls["system1"].deadline_s
    asked = stage.send_of("safety")
    stage.core.calls["safety"].deadline_s = stage.core.calls["system1"].deadline_s
    alert = stage.run_until(Alert, limit_s=1)
    assert isinstance(alert, Alert)
    assert alert.cause == "slo_missed"
    assert alert.reason.startswith("safety: ")
    assert asked.component == "safety"
    assert stage.core.state is State.WAITING_FOR_HUMAN
    assert not stage.of(MoveTo)


def test_unsafe_calls_a_human_where_that_is_the_fallback_although_the_limit_would_give_up() -> None:
    stage = Stage(component("safety", "stop_and_call_human"), on_violation="abort", unsafe=1)
    stage.good.update(system1="", safety="unsafe")
    stage.start()
    alert = stage.run_until(Alert, limit_s=1)
    assert isinstance(alert, Alert)
    assert alert.cause == "unsafe"


def test_without_a_plan_there_is_nothing_to_go_on_with_whoever_missed() -> None:
    """Rung 1 of any component goes on with the plan; before the first plan it stops."""
    stage = Stage(SYSTEM2, component("monitor", "use_last_plan"))
    stage.start()
    stage.send_of("monitor")
    stage.run(0.21)
    assert ("stop_and_resend", "slo_missed") in stage.actions_taken
    assert ("use_last_plan", "slo_missed") not in stage.actions_taken


def test_no_motion_begins_before_safety_has_looked() -> None:
    stage = Stage(component("safety", "stop_and_resend"))
    stage.good["system1"] = ""
    stage.start()
    asked = stage.send_of("safety")
    assert not [c for c in stage.run(0.15) if isinstance(c, Play)]
    stage.answer(asked, verdict="safe")
    stage.run_until(Play, limit_s=0.5)


def test_after_a_decision_safety_looks_again_before_anything_moves() -> None:
    stage = Stage(component("safety", "stop_and_resend"), unsafe=3)
    stage.good.update(system1="", safety="safe")
    stage.start()
    stage.run_until(Play)
    stage.good["safety"] = "unsafe"
    stage.run_until(Alert)
    stage.decide("resume")
    assert not [c for c in stage.run(1.0) if isinstance(c, Play)]


def test_confirmations_are_the_monitors() -> None:
    with pytest.raises(ConfigError, match=r"safety\.confirmations: expected 1, got 3: only the monitor"):
        Stage("    safety: {model: s, slo_ms: 200, freq_hz: 5, confirmations: 3}")


# -- what limits lead to ----------------------------------------------------------------------------------------------


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
    assert isinstance(stage.core.last_order, Hold)
    assert len(stage.of(MoveTo)) == 1


def test_where_the_safe_pose_is_the_answer_to_danger_the_way_to_a_human_goes_on() -> None:
    stage = clearing("return_to_safe_state")
    stage.good["safety"] = "unsafe"
    stage.run(2)
    assert stage.core.unsafe_in_a_row > 1
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
    assert isinstance(stage.core.last_order, Hold)
    assert not stage.of(Alert)


@pytest.mark.parametrize("policy", ["stop_and_call_human", "return_to_safe_state", "abort"])
def test_after_the_last_retry_follows_what_the_task_says(policy: str) -> None:
    stage = Stage(MONITOR, on_retries=policy)
    stage.good.update(system1="", monitor="failed")
    stage.start()
    last = stage.run_until(TaskEnded if policy == "abort" else Alert)
    assert stage.core.counters.retries == 1
    assert "failed again after 1 retries" in last.reason
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


# -- calls ------------------------------------------------------------------------------------------------------------


def test_every_call_is_told_of_when_it_ends() -> None:
    stage = Stage(MONITOR)
    stage.start()
    first = stage.send_of("system1")
    stage.run(0.05)
    stage.answer(first)
    assert stage.of(CallEnded)[-1] == CallEnded(
        "system1", first.request_id, "in_time", pytest.approx(50), 200
    )
    stage.run(0.35)
    missed = stage.of(CallEnded)[-1]
    assert (missed.component, missed.ending) == ("monitor", "missed")
    assert missed.duration_ms >= missed.slo_ms == 300
    stage.good["monitor"] = "ongoing"
    last = stage.send_of("system1")
    stage._note(stage.core.cancel(stage.now_s, "enough"))
    assert ("cancelled", last.request_id) in [(c.ending, c.request_id) for c in stage.of(CallEnded)]
    sent, ended = stage.of(Send), stage.of(CallEnded)
    assert sorted(c.request_id for c in ended) == [c.request_id for c in sent]


def test_questions_of_a_hold_do_not_put_off_the_next_turn() -> None:
    """While a component holds the robot it is asked more often; its own rhythm goes on afterwards."""
    stage = Stage("    safety: {model: s, slo_ms: 100, freq_hz: 1}", misses=30)
    stage.good.update(system1="", safety="safe")
    stage.start()
    stage.run(1.5)
    del stage.good["safety"]
    stage.send_of("safety")
    stage.run(2.2)
    stage.good["safety"] = "safe"
    stage.send_of("safety")
    began_s = stage.now_s
    stage.send_of("safety")
    assert stage.now_s - began_s <= 1 + 2 * PERIOD_S


def test_only_used_results_count_as_latency() -> None:
    """A server that refuses at once must not look fast."""
    stage = Stage()
    stage.start()
    stage.refuse(stage.send_of("system1"), "overloaded")
    stage.run(0.3)
    assert not stage.core.calls["system1"].latencies_ms


def test_periodic_components_keep_their_own_time() -> None:
    stage = Stage(component("cable_watch", "stop_and_resend"), component("safety", "stop_and_replan"))
    stage.good.update(system1="", safety="safe", cable_watch="ok")
    stage.start()
    stage.run(4.0)
    while_playing = 0
    playing = False
    for _, command in stage.events:
        playing = isinstance(command, Play) or (playing and not isinstance(command, Hold))
        while_playing += playing and isinstance(command, Send) and command.component == "cable_watch"
    calls = [c.component for c in stage.of(Send)]
    assert 18 <= calls.count("cable_watch") <= 21, "5 Hz for four seconds"
    assert 18 <= calls.count("safety") <= 21
    assert while_playing > 5, "not only between chunks"


@pytest.mark.parametrize(("ratio", "plans"), [(1.0, 10), (0.5, 5), (0.1, 1)])
def test_system_2_is_called_as_often_as_the_ratio_says(ratio: float, plans: int) -> None:
    stage = Stage(SYSTEM2, ratio=ratio)
    stage.good.update(system1="", system2="")
    stage.start()
    while len(stage.of(Play)) < 10:
        stage.run(PERIOD_S)
    assert [c.component for c in stage.of(Send)].count("system2") == plans


def test_a_component_that_did_not_answer_is_not_called_good_again() -> None:
    """The deadline has passed and it may be asked again; whether it is good shows with its next answer."""
    stage = Stage()
    stage.start()
    stage.send_of("system1")
    stage.run(0.3)
    cleared = [c for c in stage.of(Decision) if isinstance(c, Decision) and c.action == "clear"]
    assert [(c.component, c.cause) for c in cleared] == [("system1", "asked_again")]
