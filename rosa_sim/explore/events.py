"""Everything that can happen to a robot, one event at a time: the alphabet of the search.

An event is a name and what it does to a situation. `possible` lists those that can happen in one situation and may
change it; what must change nothing is in `harmless.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import inf

import numpy as np

from rosa_client.runtime.commands import HOLDING, MOVING, PLAYING
from rosa_client.runtime.machines.side_machines import LegProgress
from rosa_client.runtime.machines.task_machine import MOVES, State
from rosa_client.runtime.parts.chunk import AskedAhead
from rosa_client.runtime.route import UP_AND_CLEAR
from rosa_client.runtime.runtime import CHOICES
from rosa_contract.config.tasks import MONITOR, SAFETY, SYSTEM1, SYSTEM2
from rosa_contract.wire.messages import FAILED, OK, Output, Response
from rosa_sim.explore.situation import (
    BLIND,
    FAULTY,
    LONG_AGO_S,
    NOW_S,
    RETURNS,
    STOPPED,
    UNLINKED,
    Situation,
)

Event = tuple[str, Callable[[Situation], None]]

GOOD_ACTIONS = np.zeros((2, 3), np.float32)
IMPOSSIBLE_ACTIONS = np.full((2, 3), 9.0, np.float32)
AFTER_DEADLINE = "after its deadline"
ALL_WRONG = ("", BLIND, FAULTY, STOPPED)


def possible(situation: Situation) -> Iterator[Event]:
    """Every event that can happen now."""
    core = situation.core
    if core.state is State.IDLE:
        yield "start", lambda w: w.hear(w.runtime.start(NOW_S, 60.0))
        for wrong in ("", STOPPED, FAULTY, RETURNS):
            yield _tick("a period", wrong)
        return
    yield "cancel", lambda w: w.hear(w.runtime.cancel(NOW_S, "enough"))
    for wrong in (*ALL_WRONG, UNLINKED, RETURNS):
        yield _tick("a period", wrong)
    yield from _times(situation)
    yield from _server(situation)
    yield from _arm(situation)
    if core.state is State.WAITING_FOR_HUMAN:
        for choice in CHOICES:
            yield f"operator: {choice}", _decide(choice)


def _times(situation: Situation) -> Iterator[Event]:
    """Something becomes due, ends, or has taken too long."""
    core = situation.core
    for calls in core.calls.values():
        if calls.component.freq_hz is not None and not calls.in_flight:
            yield f"{calls.name} is due", _then_tick(_due(calls.name))
    if any(calls.resend_after_s > NOW_S for calls in core.calls.values()):
        yield "what was refused may be sent again", _then_tick(resend)
    if core.state is State.EXECUTING and core.chunk.ask_next_s < inf:
        for wrong in ALL_WRONG:
            yield f"the next chunk is to be asked for {wrong}", _then_tick(asks_next, wrong)
    if core.state is State.EXECUTING:
        for wrong in ALL_WRONG:
            yield f"the chunk ends {wrong}", _then_tick(chunk_ends, wrong)
    if core.state in MOVES and core.arm.leg_progress is LegProgress.ARRIVED:
        yield "the stay is over", _then_tick(stay_over)
    if core.state in (State.CONNECTING, State.INFERRING, *MOVES):
        for wrong in ("", UNLINKED, RETURNS):
            yield f"the state lasts too long {wrong}", _then_tick(lasts_too_long, wrong)
    if situation.arm_behind:
        yield "the arm takes no order in time", _then_tick(silent_arm)
    for key in core.holds.by:
        wrong = BLIND if key.startswith("sensor:") else ""
        yield f"{key} holds too long", _then_tick(_held_too_long(key), wrong)
    if core.deadline_s is not None:
        yield "the task's time is over", _then_tick(task_time_over)


def _server(situation: Situation) -> Iterator[Event]:
    """Answers, refusals, deadlines."""
    in_flight = [calls.name for calls in situation.core.calls.values() if calls.in_flight]
    for name in in_flight:
        for output in outputs(name):
            yield f"{name} answers {_said(output)}", _answer(name, output)
            yield f"{name} answers {AFTER_DEADLINE} {_said(output)}", _too_late(name, output)
        yield f"{name} is refused", _answer(name, None)
        if name == SYSTEM1 and situation.joins:
            yield f"{name} answers actions whose time has passed", _answers_for_the_past
        yield f"{name} misses its deadline", _then_tick(_overdue((name,)))
    if len(in_flight) > 1:
        for wrong in ALL_WRONG:
            yield f"all miss their deadlines {wrong}", _then_tick(_overdue(tuple(in_flight)), wrong)


def _arm(situation: Situation) -> Iterator[Event]:
    if situation.arm_behind:
        yield "the arm takes the order", _then_tick(Situation.arm_takes)
        yield "the arm takes the order while it is led on", _then_tick(Situation.led_arm_takes, RETURNS)
        return
    if situation.arm_state in (PLAYING, MOVING):
        yield "the arm comes to its end", _then_tick(comes_to_end)
        yield "the arm is cut short", _then_tick(cut_short)
        if situation.core.state is State.RESETTING and situation.core.arm.leg == UP_AND_CLEAR:
            yield "the arm comes to its end with something held", _then_tick(ends_holding)


# -- what events do ---------------------------------------------------------------------------------------------------


def resend(situation: Situation) -> None:
    for calls in situation.core.calls.values():
        calls.resend_after_s = LONG_AGO_S


def chunk_ends(situation: Situation) -> None:
    situation.core.chunk.ends_s = NOW_S


def asks_next(situation: Situation) -> None:
    situation.core.chunk.ask_next_s = NOW_S


def stay_over(situation: Situation) -> None:
    situation.core.arm.stay_until_s = NOW_S


def lasts_too_long(situation: Situation) -> None:
    situation.core.entered_s = LONG_AGO_S


def silent_arm(situation: Situation) -> None:
    situation.core.arm.ordered_s = situation.core.arm.unheard_since_s = LONG_AGO_S


def task_time_over(situation: Situation) -> None:
    situation.core.deadline_s = LONG_AGO_S


def comes_to_end(situation: Situation) -> None:
    situation.arm_state, situation.object_held = HOLDING, False


def ends_holding(situation: Situation) -> None:
    situation.arm_state, situation.object_held = HOLDING, True


def cut_short(situation: Situation) -> None:
    situation.arm_state, situation.arm_cut = HOLDING, True


def all_due(situation: Situation) -> None:
    for calls in situation.core.calls.values():
        calls.due_s = LONG_AGO_S


def all_overdue(situation: Situation) -> None:
    for calls in situation.core.calls.values():
        if calls.in_flight:
            calls.deadline_s = LONG_AGO_S


def held_too_long(situation: Situation, key: str) -> None:
    held = situation.core.holds.by[key]
    situation.core.holds.by[key] = type(held)(held.action, LONG_AGO_S)


def answer_well(situation: Situation, name: str) -> None:
    """Answer so that the task advances."""
    best = {SYSTEM1: 0, SYSTEM2: 0, SAFETY: 0, MONITOR: 1}.get(name, 0)
    _answer(name, outputs(name)[best])(situation)


def answer_on(situation: Situation, name: str) -> None:
    """Answer so that the task goes on as it is."""
    _answer(name, outputs(name)[0])(situation)


def refuse(situation: Situation, name: str) -> None:
    """The server cannot answer."""
    _answer(name, None)(situation)


@cache
def outputs(name: str) -> tuple[Output, ...]:
    """What a component may answer, usable or not."""
    if name == SYSTEM1:
        return tuple(Output({"actions": actions}) for actions in (GOOD_ACTIONS, IMPOSSIBLE_ACTIONS))
    if name == SYSTEM2:
        return Output({}, text="left"), Output({}, text="")
    verdicts = {SAFETY: ("safe", "unsafe", "?"), MONITOR: ("ongoing", "done", "failed", "?")}
    return tuple(Output({}, verdict) for verdict in verdicts.get(name, ("fine",)))


def response(request_id: int, output: Output | None) -> Response:
    """The server's response; without an output, that it failed."""
    if output is None:
        return Response(request_id, FAILED, "model_error", "because")
    return Response(request_id, OK, output=output)


def _said(output: Output) -> str:
    if output.arrays:
        return "actions" if output.arrays["actions"] is GOOD_ACTIONS else "impossible actions"
    return repr(output.verdict or output.text)


def _tick(name: str, wrong: str) -> Event:
    return f"{name} {wrong}", lambda w: w.tick(wrong)


def _then_tick(change: Callable[[Situation], None], wrong: str = "") -> Callable[[Situation], None]:
    def happen(situation: Situation) -> None:
        change(situation)
        situation.tick(wrong)

    return happen


def _due(name: str) -> Callable[[Situation], None]:
    return lambda situation: setattr(situation.core.calls[name], "due_s", LONG_AGO_S)


def _overdue(names: tuple[str, ...]) -> Callable[[Situation], None]:
    def happen(situation: Situation) -> None:
        for name in names:
            situation.core.calls[name].deadline_s = LONG_AGO_S

    return happen


def _held_too_long(key: str) -> Callable[[Situation], None]:
    return lambda situation: held_too_long(situation, key)


def _answer(name: str, output: Output | None) -> Callable[[Situation], None]:
    def happen(situation: Situation) -> None:
        request_id = situation.core.calls[name].request_id
        assert request_id is not None
        situation.arrived = response(request_id, output)
        situation.hear(situation.runtime.answer(NOW_S, situation.arrived))

    return happen


def _answers_for_the_past(situation: Situation) -> None:
    """In time, but the arm has played for longer meanwhile than the chunk lasts."""
    situation.core.chunk.asked = AskedAhead(LONG_AGO_S, 1)
    _answer(SYSTEM1, outputs(SYSTEM1)[0])(situation)


def _too_late(name: str, output: Output) -> Callable[[Situation], None]:
    """The deadline passes, and the answer comes before the next control period."""

    def happen(situation: Situation) -> None:
        situation.core.calls[name].deadline_s = LONG_AGO_S
        _answer(name, output)(situation)

    return happen


def _decide(choice: str) -> Callable[[Situation], None]:
    def happen(situation: Situation) -> None:
        alert = situation.core.person.alert
        refused, commands = situation.runtime.decide(NOW_S, alert.alert_id if alert else 0, choice, "anna")
        situation.refusal = refused
        situation.hear(commands)

    return happen
