"""Calls that share what the robot saw: sent together, early but never late, and never about an earlier scene."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from rosa_client.runtime.commands import Play, Send
from rosa_client.runtime.machines.task_machine import State
from tests.unit.client.runtime.stage import MONITOR, PERIOD_S, SAFETY, SYSTEM2, Stage

VERDICTS = {
    "system1": ("",),
    "system2": ("",),
    "safety": (*["safe"] * 9, "unsafe"),
    "monitor": (*["ongoing"] * 30, "failed"),
}
SHARES = "share_observation_ms: 450"
SAFE = "    safety: {model: s, slo_ms: 200, freq_hz: 2, fallback: stop_and_replan}"


def sends(stage: Stage) -> list[tuple[float, Send]]:
    return [(at_s, one) for at_s, one in stage.events if isinstance(one, Send)]


def rounds(stage: Stage, count: int, plan_s: float = 0.05) -> None:
    """Answer well until this number of chunks has been played."""
    stage.good = {"safety": "safe", "monitor": "ongoing"}
    answered = 0
    while len(stage.of(Play)) < count:
        stage.run(PERIOD_S)
        for at_s, one in sends(stage)[answered:]:
            wait_s = plan_s if one.component == "system2" else 0.05
            if one.component not in stage.good and stage.now_s >= at_s + wait_s - 1e-9:
                stage.answer(one, text="open")
            elif one.component not in stage.good:
                break
            answered += 1


def test_without_it_each_call_of_the_chain_has_its_own_observation() -> None:
    stage = Stage(SYSTEM2, SAFE, MONITOR)
    stage.start()
    rounds(stage, 8)
    numbers = [one.observation for _, one in sends(stage) if one.component in ("system1", "system2")]
    assert len(set(numbers)) == len(numbers)


def test_system_1_acts_on_what_system_2_has_planned_with() -> None:
    stage = Stage(SYSTEM2, pipeline=SHARES)
    stage.start()
    rounds(stage, 4)
    called = [(one.component, one.observation) for _, one in sends(stage)]
    assert called == [(name, number) for number in range(1, 5) for name in ("system2", "system1")]


def test_a_plan_that_took_too_long_is_about_an_earlier_scene() -> None:
    stage = Stage(SYSTEM2, pipeline="share_observation_ms: 100")
    stage.start()
    rounds(stage, 2, plan_s=0.15)
    numbers = [one.observation for _, one in sends(stage)]
    assert len(set(numbers)) == len(numbers)


def test_a_call_that_is_sent_again_is_about_a_new_observation() -> None:
    stage = Stage(SYSTEM2, pipeline="share_observation_ms: 5000", system1="use_last_plan")
    stage.start()
    stage.answer(stage.send_of("system2"), text="open")
    first = stage.send_of("system1")
    stage.run(0.25)  # its deadline passes
    again = [one for _, one in sends(stage) if one.component == "system1"][1:]
    assert again
    assert first.observation not in [one.observation for one in again]


def test_after_a_stop_nothing_is_about_what_was_seen_before() -> None:
    stage = Stage(SYSTEM2, SAFE, pipeline="share_observation_ms: 5000")
    stage.start()
    stage.answer(stage.send_of("safety"), "safe")
    planned = stage.send_of("system2")
    stage.answer(planned, text="open")
    stage.refuse(stage.send_of("system1"), "failed")
    stage.good = {"safety": "safe"}
    assert stage.send_of("system1").observation > planned.observation


def test_periodic_calls_leave_with_a_rounds_observation_and_never_later_than_due() -> None:
    """Rounds of 460 to 490 ms: each call that is due every 500 ms goes with one."""
    stage = Stage(SYSTEM2, SAFE, MONITOR, ratio=0.5, pipeline=SHARES)
    stage.start()
    rounds(stage, 20, plan_s=0.02)
    of_round = {one.observation for _, one in sends(stage) if one.component in ("system1", "system2")}
    for name, period_s in (("safety", 0.5), ("monitor", 0.5)):
        calls = [(at_s, one) for at_s, one in sends(stage) if one.component == name][1:]
        gaps_s = [after - before for (before, _), (after, _) in pairwise(calls)]
        assert max(gaps_s) <= period_s + PERIOD_S + 1e-9, "a period is a promise"
        assert min(gaps_s) >= period_s / 2 - PERIOD_S - 1e-9
        alone = [one for _, one in calls if one.observation not in of_round]
        assert len(alone) <= 2, "until they have met"


@pytest.mark.slow
def test_whatever_happens_an_observation_that_is_named_again_still_shows_the_scene() -> None:
    ways = [(plans, acts) for plans in ("in_turn", "ahead") for acts in ("synchronous", "asynchronous")]
    assert sum(named_again(seed, *way) for seed, way in enumerate(2 * ways)) > 30


def named_again(seed: int, planning: str, execution: str) -> int:
    """A robot to which anything may happen; how often a call was about what an earlier one saw."""
    rng = random.Random(seed)
    way = f"execution: {execution}, {SHARES}"
    stage = Stage(SYSTEM2, SAFETY, MONITOR, ratio=0.3, planning=planning, pipeline=way)
    stage.start()
    taken_s: dict[int, float] = {}
    again = seen = 0
    for _ in range(1500):
        for call in stage.open_calls():
            what = rng.random()
            if what < 0.2:
                stage.answer(call, rng.choice(VERDICTS[call.component]), text="go on")
            elif what < 0.21:
                stage.refuse(call, "overloaded")
        stage.cut_short = "no sign of life" if rng.random() < 0.01 else ""
        if stage.core.state is State.WAITING_FOR_HUMAN:
            stage.decide("resume")
        before_s = stage.core.sight.fresh_after_s
        stage.run(PERIOD_S)
        for at_s, one in sends(stage)[seen:]:
            seen += 1
            first_s = taken_s.setdefault(one.observation, at_s)
            if first_s < at_s:
                again += 1
                assert at_s - first_s <= 0.45 + 1e-9
                assert first_s > max(before_s, 0.0)
                assert one.component in ("system1", "system2")
    assert list(taken_s) == sorted(taken_s)
    return again
