"""A robot may call before its turn with the server's permission, and never depends on hearing of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_client.runtime.commands import Ask, CallEnded, Send
from rosa_contract.permits import ASK_PERMIT_EVERY_S, MAX_WAIT_FOR_PERMIT_S, MIN_WAIT_FOR_PERMIT_S
from tests.unit.client.runtime.stage import PERIOD_S, SYSTEM2, Stage

PLANNED_HZ = 0.8


def asking(rate_hz: float = PLANNED_HZ, *components: str) -> Stage:
    stage = Stage(*components)
    stage.rates_hz, stage.permits = {"system1": rate_hz}, ("system1",)
    stage.good = {"system1": ""}
    stage.start()
    return stage


def times(stage: Stage, kind: type[Ask] | type[Send]) -> list[float]:
    return [now_s for now_s, c in stage.events if isinstance(c, kind) and c.component == "system1"]


def run(stage: Stage, seconds: float, answer_s: float | None) -> None:
    """Let time pass; the server answers each question after `answer_s`, or never."""
    first_s, seen = stage.now_s, 0
    while stage.now_s < first_s + seconds:
        stage.run(PERIOD_S)
        asked = times(stage, Ask)
        if answer_s is not None and len(asked) > seen and stage.now_s >= asked[-1] + answer_s:
            seen = len(asked)
            stage.permit_s = {"system1": stage.now_s}


def gaps(stage: Stage) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times(stage, Send))]


def test_with_permits_it_calls_as_soon_as_it_is_ready_and_allowed() -> None:
    stage = asking()
    run(stage, 8.0, 0.05)
    assert len(times(stage, Ask)) == pytest.approx(len(times(stage, Send)), abs=1)
    assert max(gaps(stage)) < 0.6, "a chunk of 0.4 s, the way to the server and back, and the call"


def test_without_an_answer_it_keeps_to_the_planned_rate_and_goes_on_asking() -> None:
    stage = asking()
    run(stage, 12.0, None)
    assert min(gaps(stage)) >= 1 / PLANNED_HZ - 1e-9
    assert max(gaps(stage)) == pytest.approx(1 / PLANNED_HZ, abs=0.05)
    again = [later - earlier for earlier, later in pairwise(times(stage, Ask))]
    assert min(again) >= min(ASK_PERMIT_EVERY_S, 1 / PLANNED_HZ - 0.5) - 1e-9


def test_it_never_waits_longer_than_it_is_patient_however_low_its_rate() -> None:
    stage = asking(0.05)
    run(stage, 20.0, None)
    assert max(gaps(stage)) <= MAX_WAIT_FOR_PERMIT_S + 0.6
    assert min(gaps(stage)) >= MAX_WAIT_FOR_PERMIT_S


def test_one_permit_is_for_one_call() -> None:
    stage = asking()
    run(stage, 3.0, 0.02)
    before = len(times(stage, Send))
    run(stage, 1.0, None)
    assert len(times(stage, Send)) <= before + 1


def test_it_asks_before_it_calls_even_where_its_turn_has_come() -> None:
    stage = asking(20.0)
    run(stage, 4.0, 0.03)
    for sent_s in times(stage, Send):
        assert any(sent_s - MIN_WAIT_FOR_PERMIT_S <= asked_s <= sent_s for asked_s in times(stage, Ask))


def test_a_server_without_permits_is_never_asked() -> None:
    stage = asking()
    stage.permits = ()
    run(stage, 5.0, 0.02)
    assert times(stage, Ask) == []


def test_the_planner_asks_for_itself() -> None:
    stage = asking(PLANNED_HZ, SYSTEM2)
    stage.good["system2"] = ""
    stage.permits = ("system1", "system2")
    stage.rates_hz["system2"] = 0.4
    stage.run(0.5)
    asked = [c.component for _, c in stage.events if isinstance(c, Ask)]
    assert asked[:1] == ["system2"], "it plans first"


@pytest.mark.slow
@settings(max_examples=60)
@given(
    answers=st.lists(st.sampled_from([None, 0.0, 0.02, 0.3, 0.7]), min_size=1, max_size=6),
    rate_hz=st.sampled_from([0.1, 0.8, 5.0]),
)
def test_whatever_is_lost_it_goes_on_and_its_quiet_time_holds(
    answers: list[float | None], rate_hz: float
) -> None:
    stage = asking(rate_hz)
    for answer_s in answers:
        before = len(times(stage, Send))
        run(stage, MAX_WAIT_FOR_PERMIT_S + 1.5, answer_s)
        assert len(times(stage, Send)) > before
        assert stage.runtime.next_due_s <= stage.now_s + MAX_WAIT_FOR_PERMIT_S + 10
    open_calls = sum(isinstance(c, Send) for _, c in stage.events) - sum(
        isinstance(c, CallEnded) for _, c in stage.events
    )
    assert open_calls in (0, 1), "every call ends once"
