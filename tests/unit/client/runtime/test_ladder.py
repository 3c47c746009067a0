"""The ladder of fallbacks as stories: each component with each fallback, and the worst wins."""

from __future__ import annotations

import pytest

from rosa_client.runtime.commands import Alert, Hold, MoveTo, Play, TaskEnded
from rosa_client.runtime.machines.task_machine import State
from rosa_contract.errors import ConfigError
from rosa_contract.fallbacks import FALLBACK_NAMES
from tests.unit.client.runtime.stage import PERIODIC, SAFETY, SYSTEM2, Stage, component


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
    stage.core.planning.plan = "the last plan"
    first = len(stage.events)
    stage.run(0.21)
    stage.good[name] = answered
    done = [command for _, command in stage.events[first:]]
    assert stage.core.last_decision
    assert (fallback, "slo_missed") in stage.actions_taken
    assert any(isinstance(c, Alert) for c in done) is (fallback == "stop_and_call_human")
    assert [c.pose for c in done if isinstance(c, MoveTo)] == ["safe"] * (fallback == "return_to_safe_state")
    assert (stage.core.planning.plan is None) is (fallback in ("stop_and_replan", "return_to_safe_state"))
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
    assert isinstance(stage.core.arm.last_order, Hold)
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


def test_the_alert_says_for_how_long_safety_said_unsafe_and_where_to_look() -> None:
    stage = Stage(component("safety", "stop_and_replan"), unsafe=11)
    stage.good.update(system1="", safety="unsafe")
    stage.start()
    alert = stage.run_until(Alert)
    assert isinstance(alert, Alert)
    assert alert.reason == (
        "safety says unsafe for 2 s, 11 times in a row;"
        " look whether somebody is in the workcell; resume when it is clear"
    )


@pytest.mark.parametrize("policy", ["return_to_safe_state", "abort"])
def test_whoever_is_called_at_the_safe_pose_hears_where_to_look_and_nobody_does_when_the_task_is_given_up(
    policy: str,
) -> None:
    stage = Stage(SAFETY, on_violation=policy, unsafe=3)
    stage.good.update(system1="", safety="unsafe")
    stage.start()
    ended = stage.run_until(TaskEnded if policy == "abort" else Alert, limit_s=5)
    assert isinstance(ended, Alert | TaskEnded)
    advice = "the robot is at its safe pose; look whether somebody is in the workcell"
    assert (advice in ended.reason) is (policy != "abort")
    assert "safety says unsafe" in ended.reason


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
