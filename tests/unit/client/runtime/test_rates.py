"""A server that runs a schedule tells each robot how often it may act; sending faster would break others' deadlines."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.commands import Send
from rosa_contract.config.tasks import Component
from tests.unit.client.runtime.stage import SAFETY, Stage, component


def sends(stage: Stage, component: str) -> list[float]:
    return [now_s for now_s, c in stage.events if isinstance(c, Send) and c.component == component]


def gaps(stage: Stage, component: str) -> list[float]:
    return [later - earlier for earlier, later in pairwise(sends(stage, component))]


def acting(rate_hz: float, *components: str) -> Stage:
    stage = Stage(*components)
    stage.rates_hz = {"system1": rate_hz} if rate_hz else {}
    stage.good = {"system1": "", "safety": "safe"}
    stage.start()
    return stage


def test_without_a_schedule_a_robot_acts_as_often_as_its_round_allows() -> None:
    stage = acting(0.0)
    stage.run(5.0)
    assert max(gaps(stage, "system1")) < 0.45, "a chunk of 0.4 s, and the next call"


def test_with_a_schedule_it_keeps_to_its_rate() -> None:
    stage = acting(0.8)
    stage.run(10.0)
    found = gaps(stage, "system1")
    assert len(found) >= 6
    assert min(found) >= 1.25 - 1e-9
    assert max(found) == pytest.approx(1.25, abs=0.03), "and does not fall behind it"


def test_a_rate_above_what_its_round_allows_changes_nothing() -> None:
    free, capped = acting(0.0), acting(20.0)
    free.run(5.0)
    capped.run(5.0)
    assert sends(free, "system1") == sends(capped, "system1")


def test_a_rate_that_falls_while_it_runs_holds_from_the_next_call() -> None:
    stage = acting(0.0)
    stage.run(3.0)
    before = len(gaps(stage, "system1"))
    stage.rates_hz = {"system1": 0.5}
    stage.run(9.0)
    assert min(gaps(stage, "system1")[before:]) >= 2.0 - 1e-9


def test_a_call_that_missed_its_deadline_is_not_repeated_faster_than_the_rate() -> None:
    stage = acting(2.0)
    del stage.good["system1"]
    stage.run(2.0)
    assert min(gaps(stage, "system1")) >= 0.5 - 1e-9, "0.2 s would be the deadline"


def test_periodic_components_keep_their_own_rate() -> None:
    stage = acting(0.5, SAFETY)
    stage.rates_hz = {"system1": 0.5, "safety": 0.1}
    stage.run(4.0)
    assert max(gaps(stage, "safety")) < 0.25


def test_catching_up_is_bounded_by_one_period() -> None:
    calls = ComponentCalls("system1", Component("policy", 300.0))
    calls.send(1, 0.0, 1.0, 1.0)
    calls.cancel(0.1)
    assert calls.next_turn_s(1.0, 1.0) == 1.0
    calls.send(2, 1.5, 1.0, 1.0)  # half a period late
    calls.cancel(1.6)
    assert calls.next_turn_s(1.0, 1.0) == 2.0, "back in its place"
    calls.send(3, 9.0, 1.0, 1.0)  # many periods late
    calls.cancel(9.1)
    assert calls.next_turn_s(1.0, 1.0) == 9.0, "one period is made up for"
    calls.send(4, 9.1, 1.0, 1.0)
    calls.cancel(9.2)
    assert calls.next_turn_s(1.0, 1.0) == 10.0, "and no more"


def test_without_catching_up_the_least_gap_is_one_period() -> None:
    calls = ComponentCalls("system1", Component("policy", 300.0))
    for number, now_s in enumerate((0.0, 1.5, 9.0)):
        calls.send(number, now_s, 1.0)
        calls.cancel(now_s)
        assert calls.next_turn_s(1.0, 0.0) == now_s + 1.0


def test_the_first_calls_wait_for_their_phase_and_periodic_ones_keep_it() -> None:
    stage = Stage(SAFETY)
    stage.good = {"system1": "", "safety": "safe"}
    stage.first_call_s = {"safety": stage.now_s + 0.13, "system1": stage.now_s + 0.7}
    begun_s = stage.now_s
    stage.start()
    stage.run(3.0)
    period_s = 1 / (stage.core.calls["safety"].component.freq_hz or 0.0)
    safety = sends(stage, "safety")
    assert safety[0] - begun_s == pytest.approx(0.13, abs=0.02)
    assert sends(stage, "system1")[0] - begun_s == pytest.approx(0.7, abs=0.02)
    for number, at_s in enumerate(safety):
        assert at_s - safety[0] == pytest.approx(number * period_s, abs=0.02)


def test_a_task_that_begins_after_its_phase_calls_at_once_and_then_at_its_times() -> None:
    stage = Stage(SAFETY)
    stage.good = {"system1": "", "safety": "safe"}
    phase_s = stage.now_s
    stage.first_call_s = {"safety": phase_s}
    stage.run(0.93)
    begun_s = stage.now_s
    stage.start()
    stage.run(3.0)
    period_s = 1 / (stage.core.calls["safety"].component.freq_hz or 0.0)
    first_s, *later_s = sends(stage, "safety")
    assert first_s - begun_s < 0.05, "nobody waits for a verdict"
    for before_s, at_s in pairwise([first_s, *later_s]):
        assert 0 < at_s - before_s <= period_s + 0.02, "none comes later than a period"
    for at_s in later_s:
        assert abs(at_s - phase_s - period_s * round((at_s - phase_s) / period_s)) <= 0.02


def test_after_a_hold_a_periodic_component_is_called_at_its_times_again() -> None:
    """The server has put the calls of other robots between those of this one, and a hold calls at once."""
    stage = Stage(component("safety", "stop_and_replan", slo_ms=130))
    stage.good = {"system1": "", "safety": "safe"}
    phase_s = stage.now_s
    stage.first_call_s = {"safety": phase_s}
    stage.start()
    stage.run(1.0)
    del stage.good["safety"]
    stage.run(0.33)
    stage.good["safety"] = "safe"
    stage.run(3.0)
    period_s = 1 / (stage.core.calls["safety"].component.freq_hz or 0.0)
    late_s = [s for s in sends(stage, "safety") if s > phase_s + 2.0]
    assert len(late_s) >= 2.0 / period_s
    for at_s in late_s:
        assert abs(at_s - phase_s - period_s * round((at_s - phase_s) / period_s)) <= 0.02
    assert max(gaps(stage, "safety")) <= period_s + 0.02, "none comes later than a period"


@pytest.mark.parametrize("begins_s", [0.0, 0.25, 0.2500001, 0.2499999, 1.13])
def test_a_call_at_its_time_is_not_made_twice(begins_s: float) -> None:
    calls = ComponentCalls("safety", Component("checker", 100.0, freq_hz=4.0))
    calls.begin(begins_s)
    calls.keep_phase(0.0, begins_s)
    calls.send(1, begins_s)
    assert 0.01 < calls.due_s - begins_s <= 0.25 + 1e-6
    assert calls.due_s == pytest.approx(0.25 * round(calls.due_s / 0.25), abs=1e-6)
