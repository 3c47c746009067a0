"""Everything that can happen to a robot, one thing at a time: the alphabet of the search.

An event is a name and what it does to a world. `possible` lists those that can happen in one world and may change it;
what must change nothing is in `harmless.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from rosa_client.runtime.commands import HOLDING, MOVING, PLAYING, Answer
from rosa_client.runtime.route import UP_AND_CLEAR
from rosa_client.runtime.runtime import CHOICES
from rosa_client.runtime.task_machine import State
from rosa_contract.config import MONITOR, SAFETY, SYSTEM1, SYSTEM2
from rosa_contract.messages import OK, Output
from rosa_sim.explore.world import BLIND, FAULTY, LONG_AGO_S, MOVES, NOW_S, STOPPED, UNLINKED, World

Event = tuple[str, Callable[[World], None]]

GOOD_ACTIONS = np.zeros((2, 3), np.float32)
IMPOSSIBLE_ACTIONS = np.full((2, 3), 9.0, np.float32)
AFTER_DEADLINE = "after its deadline"
ALL_WRONG = ("", BLIND, FAULTY, STOPPED)


def possible(world: World) -> Iterator[Event]:
    """Every event that can happen now."""
    core = world.core
    if core.state is State.IDLE:
        yield "start", lambda w: w.hear(w.core.start(NOW_S, 60.0))
        for wrong in ("", STOPPED, FAULTY):
            yield _tick("a period", wrong)
        return
    yield "cancel", lambda w: w.hear(w.core.cancel(NOW_S, "enough"))
    for wrong in (*ALL_WRONG, UNLINKED):
        yield _tick("a period", wrong)
    yield from _times(world)
    yield from _server(world)
    yield from _arm(world)
    if core.state is State.WAITING_FOR_HUMAN:
        for choice in CHOICES:
            yield f"operator: {choice}", _decide(choice)


def _times(world: World) -> Iterator[Event]:
    """Something becomes due, ends, or has taken too long."""
    core = world.core
    for lane in core.lanes.values():
        if lane.component.freq_hz is not None and not lane.in_flight:
            yield f"{lane.name} is due", _then_tick(_due(lane.name))
    if any(lane.resend_after_s > NOW_S for lane in core.lanes.values()):
        yield "what was refused may be sent again", _then_tick(resend)
    if core.state is State.EXECUTING:
        for wrong in ALL_WRONG:
            yield f"the chunk ends {wrong}", _then_tick(chunk_ends, wrong)
    if core.stay_until_s is not None:
        yield "the stay is over", _then_tick(stay_over)
    if core.state in (State.CONNECTING, State.INFERRING, *MOVES):
        for wrong in ("", UNLINKED):
            yield f"the state lasts too long {wrong}", _then_tick(lasts_too_long, wrong)
    if world.arm_behind:
        yield "the arm takes no order in time", _then_tick(silent_arm)
    for key in core.holds:
        wrong = BLIND if key.startswith("sensor:") else ""
        yield f"{key} holds too long", _then_tick(_held_too_long(key), wrong)
    if core.deadline_s is not None:
        yield "the task's time is over", _then_tick(task_time_over)


def _server(world: World) -> Iterator[Event]:
    """Answers, refusals, deadlines."""
    in_flight = [lane.name for lane in world.core.lanes.values() if lane.in_flight]
    for name in in_flight:
        for output in outputs(name):
            yield f"{name} answers {_said(output)}", _answer(name, output)
            yield f"{name} answers {AFTER_DEADLINE} {_said(output)}", _too_late(name, output)
        yield f"{name} is refused", _answer(name, None)
        yield f"{name} misses its deadline", _then_tick(_overdue((name,)))
    if len(in_flight) > 1:
        for wrong in ALL_WRONG:
            yield f"all miss their deadlines {wrong}", _then_tick(_overdue(tuple(in_flight)), wrong)


def _arm(world: World) -> Iterator[Event]:
    if world.arm_behind:
        yield "the arm takes the order", _then_tick(World.arm_takes)
        return
    if world.arm_state in (PLAYING, MOVING):
        yield "the arm comes to its end", _then_tick(comes_to_end)
        yield "the arm is cut short", _then_tick(cut_short)
        if world.core.state is State.RESETTING and world.core.leg == UP_AND_CLEAR:
            yield "the arm comes to its end with something held", _then_tick(ends_holding)


# -- what events do ---------------------------------------------------------------------------------------------------


def resend(world: World) -> None:
    for lane in world.core.lanes.values():
        lane.resend_after_s = LONG_AGO_S


def chunk_ends(world: World) -> None:
    world.core.play_until_s = NOW_S


def stay_over(world: World) -> None:
    world.core.stay_until_s = NOW_S


def lasts_too_long(world: World) -> None:
    world.core.entered_s = LONG_AGO_S


def silent_arm(world: World) -> None:
    world.core.ordered_s = world.core.unheard_since_s = LONG_AGO_S


def task_time_over(world: World) -> None:
    world.core.deadline_s = LONG_AGO_S


def comes_to_end(world: World) -> None:
    world.arm_state, world.object_held = HOLDING, False


def ends_holding(world: World) -> None:
    world.arm_state, world.object_held = HOLDING, True


def cut_short(world: World) -> None:
    world.arm_state, world.arm_cut = HOLDING, True


def all_due(world: World) -> None:
    for lane in world.core.lanes.values():
        lane.due_s = LONG_AGO_S


def all_overdue(world: World) -> None:
    for lane in world.core.lanes.values():
        if lane.in_flight:
            lane.deadline_s = LONG_AGO_S


def held_too_long(world: World, key: str) -> None:
    held = world.core.holds[key]
    world.core.holds[key] = type(held)(held.action, LONG_AGO_S)


def answer_well(world: World, name: str) -> None:
    """The answer that brings the task on."""
    best = {SYSTEM1: 0, SYSTEM2: 0, SAFETY: 0, MONITOR: 1}.get(name, 0)
    _answer(name, outputs(name)[best])(world)


@cache
def outputs(name: str) -> tuple[Output, ...]:
    """What a component may answer, usable or not."""
    if name == SYSTEM1:
        return tuple(Output({"actions": actions}) for actions in (GOOD_ACTIONS, IMPOSSIBLE_ACTIONS))
    if name == SYSTEM2:
        return Output({}, text="left"), Output({}, text="")
    verdicts = {SAFETY: ("safe", "unsafe", "?"), MONITOR: ("ongoing", "done", "failed", "?")}
    return tuple(Output({}, verdict) for verdict in verdicts.get(name, ("fine",)))


def _said(output: Output) -> str:
    if output.arrays:
        return "actions" if output.arrays["actions"] is GOOD_ACTIONS else "impossible actions"
    return repr(output.verdict or output.text)


def _tick(name: str, wrong: str) -> Event:
    return f"{name} {wrong}", lambda w: w.tick(wrong)


def _then_tick(change: Callable[[World], None], wrong: str = "") -> Callable[[World], None]:
    def happen(world: World) -> None:
        change(world)
        world.tick(wrong)

    return happen


def _due(name: str) -> Callable[[World], None]:
    return lambda world: setattr(world.core.lanes[name], "due_s", LONG_AGO_S)


def _overdue(names: tuple[str, ...]) -> Callable[[World], None]:
    def happen(world: World) -> None:
        for name in names:
            world.core.lanes[name].deadline_s = LONG_AGO_S

    return happen


def _held_too_long(key: str) -> Callable[[World], None]:
    return lambda world: held_too_long(world, key)


def _answer(name: str, output: Output | None) -> Callable[[World], None]:
    def happen(world: World) -> None:
        request_id = world.core.lanes[name].request_id
        assert request_id is not None
        answer = Answer(request_id, OK if output is not None else "failed", "because", output)
        world.hear(world.core.answer(NOW_S, answer))

    return happen


def _too_late(name: str, output: Output) -> Callable[[World], None]:
    """The deadline passes, and the answer comes before the next control period."""

    def happen(world: World) -> None:
        world.core.lanes[name].deadline_s = LONG_AGO_S
        _answer(name, output)(world)

    return happen


def _decide(choice: str) -> Callable[[World], None]:
    def happen(world: World) -> None:
        alert = world.core.alert
        refused, commands = world.core.decide(NOW_S, alert.alert_id if alert else 0, choice, "anna")
        world.refusal = refused
        world.hear(commands)

    return happen
