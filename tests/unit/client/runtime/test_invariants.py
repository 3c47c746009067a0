"""Each promise of `invariants.py` is noticed when it is broken, by a core that does so or by what one commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rosa_client.runtime import invariants
from rosa_client.runtime.commands import Alert, CallEnded, Hold, MoveTo, Play, Send
from rosa_client.runtime.invariants import Books, of_state, unanswered, while_waiting
from rosa_client.runtime.machines.side_machines import Safety, Unfinished
from rosa_client.runtime.machines.task_machine import State
from rosa_client.runtime.mission import Mission
from rosa_client.runtime.parts.holds import Held
from rosa_contract.fallbacks import FallbackAction
from rosa_contract.wire.messages import FAILED, OK, Output, Response
from tests.unit.client.runtime.stage import MONITOR, PERIOD_S, ROBOT, SYSTEM2, Stage

SAFETY = "    safety: {model: s, slo_ms: 200, freq_hz: 5, fallback: stop_and_resend}"
T_S = 10.0
STILL = np.zeros((2, 3), np.float32)
HELD = Held(FallbackAction.STOP_AND_RESEND, 0.0)


def inferring() -> Mission:
    """A core that has asked System 2."""
    stage = Stage(SYSTEM2, SAFETY, MONITOR)
    stage.good = {"safety": "safe"}
    stage.start()
    stage.send_of("system2")
    assert not list(of_state(stage.core))
    return stage.core


def human_without_an_alert(core: Mission) -> None:
    core.person.alert = Alert(1, "x", "y", ())


def the_last_order_moves(core: Mission) -> None:
    core.calls["system2"].cancel(T_S)
    core.state, core.arm.last_order = State.CONNECTING, Play(1, STILL, 0.1, 0.2, 1)


def another_way_than_ordered(core: Mission) -> None:
    core.calls["system2"].cancel(T_S)
    core.state, core.arm.last_order = State.RETURNING, MoveTo(1, "home")


def asks_while_it_moves(core: Mission) -> None:
    core.state, core.arm.last_order = State.RETURNING, MoveTo(1, "safe")


def asks_both(core: Mission) -> None:
    core.calls["system1"].request_id = 7


def asks_on_the_way_to_a_human(core: Mission) -> None:
    core.state, core.arm.last_order = State.CLEARING, MoveTo(1, "safe")


def goes_on_while_held(core: Mission) -> None:
    core.holds.by["monitor"] = HELD


def forgets_the_way_it_owes(core: Mission) -> None:
    core.holds.unfinished = Unfinished.RETURN


def acts_before_safety(core: Mission) -> None:
    core.calls["system2"].cancel(T_S)
    core.state, core.arm.last_order = State.EXECUTING, Play(1, STILL, 0.1, 0.2, 1)
    core.holds.safety = Safety.UNKNOWN


def forgets_a_verdict(core: Mission) -> None:
    core.holds.safety = Safety.UNSAFE


def goes_on_in_danger(core: Mission) -> None:
    core.holds.safety, core.holds.unsafe_in_a_row = Safety.UNSAFE, 1


def goes_on_after_too_many_misses(core: Mission) -> None:
    core.calls["monitor"].consecutive_missed = 3


def goes_on_after_too_many_stops(core: Mission) -> None:
    core.calls["system2"].cancel(T_S)
    core.state, core.holds.stops_in_a_row = State.HOLDING, 10


STATES: list[tuple[Callable[[Mission], None], str]] = [
    (human_without_an_alert, invariants.ALERT_OPEN),
    (the_last_order_moves, invariants.ORDER_FITS),
    (another_way_than_ordered, invariants.ORDER_FITS),
    (asks_while_it_moves, invariants.NO_OLD_PICTURE),
    (asks_both, invariants.NO_OLD_PICTURE),
    (asks_on_the_way_to_a_human, invariants.NO_OLD_PICTURE),
    (goes_on_while_held, invariants.HELD_STAYS),
    (forgets_the_way_it_owes, invariants.HELD_STAYS),
    (acts_before_safety, invariants.DANGER_STOPS),
    (forgets_a_verdict, invariants.DANGER_STOPS),
    (goes_on_in_danger, invariants.DANGER_STOPS),
    (goes_on_after_too_many_misses, invariants.LIMITS_HOLD),
    (goes_on_after_too_many_stops, invariants.LIMITS_HOLD),
]


@pytest.mark.parametrize(("breaks", "rule"), STATES, ids=lambda one: getattr(one, "__name__", ""))
def test_a_core_that_breaks_a_promise_is_noticed(breaks: Callable[[Mission], None], rule: str) -> None:
    core = inferring()
    breaks(core)
    assert rule in [breach.rule for breach in of_state(core)]


SENT = Send(1, "system1", 200.0, "")
IN_TIME = CallEnded("system1", 1, "in_time", 100.0, 200.0)
MISSED = CallEnded("system1", 1, "missed", 200.0, 200.0)
PLAY = Play(1, STILL, 0.1, 0.2, 1)
ACTIONS = Response(1, OK, output=Output({"actions": STILL}))
ALERT = Alert(1, "x", "y", ())


def books(*events: Any) -> list[str]:
    """Rules that `events` break: commands, a response, and the time in s that passes before the next."""
    kept, now_s, broken = Books(inferring().task, ROBOT, PERIOD_S), T_S, []
    for event in events:
        if isinstance(event, float):
            now_s += event
            broken += kept.look(now_s)
        elif isinstance(event, Response):
            kept.arrives(event)
        elif event == "decided":
            kept.decided()
        else:
            broken += kept.commands(event if isinstance(event, list) else [event], now_s)
    return [breach.rule for breach in broken]


STORIES: list[tuple[list[Any], str]] = [
    ([SENT, 0.1, ACTIONS, [IN_TIME, PLAY]], ""),
    ([SENT, 0.205, [MISSED, Hold(1)]], ""),
    ([SENT, 0.1, ACTIONS, [IN_TIME, PLAY], ALERT], invariants.STILL_AFTER_ESCALATION),
    ([[Hold(1), ALERT], "decided", MoveTo(2, "safe")], ""),
    ([SENT, SENT], invariants.ENDS_ONCE),
    ([SENT, Send(2, "system1", 200.0, "")], invariants.ENDS_ONCE),
    ([SENT, [MISSED, Hold(1)], MISSED], invariants.ENDS_ONCE),
    ([SENT, 0.1, IN_TIME], invariants.NOTHING_LATE),
    ([SENT, 0.1, Response(1, FAILED), IN_TIME], invariants.NOTHING_LATE),
    ([SENT, 0.205, ACTIONS, IN_TIME], invariants.NOTHING_LATE),
    ([SENT, 0.1, ACTIONS, [PLAY]], invariants.NOTHING_LATE),
    ([SENT, 0.1, ACTIONS, [IN_TIME], PLAY], invariants.NOTHING_LATE),
    ([SENT, 0.3], invariants.STOP_WITHIN_A_PERIOD),
    (
        [
            SENT,
            0.1,
            ACTIONS,
            [IN_TIME, PLAY],
            Send(2, "system1", 50.0, ""),
            0.055,
            [CallEnded("system1", 2, "missed", 50.0, 50.0)],
        ],
        invariants.STOP_WITHIN_A_PERIOD,
    ),
    ([SENT, 0.1, ACTIONS, [IN_TIME, PLAY._replace(actions=STILL + 9)]], invariants.NOTHING_OUT_OF_RANGE),
    ([SENT, 0.1, ACTIONS, [IN_TIME, PLAY._replace(actions=STILL * np.nan)]], invariants.NOTHING_OUT_OF_RANGE),
    ([ALERT, MoveTo(2, "safe")], invariants.STILL_AFTER_ESCALATION),
    ([MoveTo(2, "safe"), ALERT], invariants.STILL_AFTER_ESCALATION),
]


@pytest.mark.parametrize(("story", "rule"), STORIES)
def test_commands_that_break_a_promise_are_noticed(story: list[Any], rule: str) -> None:
    assert set(books(*story)) == ({rule} if rule else set())


def test_unsafe_stops_what_plays() -> None:
    unsafe = Response(2, OK, output=Output({}, "unsafe"))
    asked = Send(2, "safety", 200.0, "")
    ended = CallEnded("safety", 2, "in_time", 100.0, 200.0)
    story = [SENT, 0.1, ACTIONS, [IN_TIME, PLAY], asked, 0.05, unsafe]
    assert books(*story, [ended]) == [invariants.STOP_WITHIN_A_PERIOD]
    assert books(*story, [ended, Hold(2)]) == []


def test_books_and_a_core_that_believes_something_else_differ() -> None:
    core = inferring()
    kept = Books.of(core, T_S)
    assert not list(kept.differ(core))
    core.calls["system2"].cancel(T_S)
    assert [breach.rule for breach in kept.differ(core)] == [invariants.ENDS_ONCE]


def test_an_observer_with_nothing_but_times_finds_both() -> None:
    assert unanswered([1.0, 2.0], [2.01, 0.99], 0.1) == 0
    assert unanswered([1.0, 1.01], [1.0], 0.1) == 1, "an answer is good for one chunk"
    assert unanswered([1.0], [1.2], 0.1) == 1
    assert while_waiting([1.0, 2.0, 3.0], [(1.5, 2.5)]) == 1


def test_every_rule_is_broken_here() -> None:
    assert set(invariants.RULES) == {rule for _, rule in STATES} | {rule for _, rule in STORIES if rule}
