"""How things may go on: all is well again, every other call fails, the server is gone for good, or everything is.

Steps are deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf

from rosa_client.runtime.ahead import wanted
from rosa_client.runtime.commands import HOLDING
from rosa_client.runtime.machines.side_machines import LegProgress
from rosa_client.runtime.machines.task_machine import MOVES, State
from rosa_contract.config.tasks import MONITOR, SYSTEM1
from rosa_sim.explore import events
from rosa_sim.explore.checks import finished
from rosa_sim.explore.keys import Key, fine
from rosa_sim.explore.situation import BLIND, NOW_S, UNLINKED, Situation

MAX_STEPS = 200


def all_is_well(situation: Situation) -> None:
    """The arm obeys, the sensors see, every call is answered well and in time."""
    _go_on(situation, answered=True)


def every_other_call_fails(situation: Situation) -> None:
    """Each periodic component fails, answers well, and fails again before much else has happened.

    Those that hold the robot answer in turn, so that of two that fail in turn one holds it at all times.
    """
    core = situation.core
    asked = [
        calls for calls in core.calls.values() if calls.component.freq_hz is not None and calls.in_flight
    ]
    fail = [calls for calls in asked if not calls.consecutive_missed]
    hold = [calls for calls in asked if calls.name in core.holds.by]
    recover = hold or asked
    if fail:
        events.refuse(situation, fail[0].name)
    elif recover:
        events.answer_on(situation, recover[core.holds.stops_in_a_row % len(recover)].name)
    else:
        _go_on(situation, answered=True)
    if not asked or hold:
        events.resend(situation)
        events.all_due(situation)
    situation.tick()


def server_is_gone(situation: Situation) -> None:
    """The arm obeys and the sensors see, but no call is answered and the server no longer welcomes the robot."""
    _go_on(situation, answered=False)


def everything_is_gone(situation: Situation) -> None:
    """No answer, no picture, and an arm that takes no order: only time passes."""
    core = situation.core
    events.all_overdue(situation)
    events.chunk_ends(situation)
    events.lasts_too_long(situation)
    events.silent_arm(situation)
    for key in core.holds.by:
        events.held_too_long(situation, key)
    situation.tick(BLIND)


def _go_on(situation: Situation, answered: bool) -> None:
    """The next thing that happens when nothing goes wrong."""
    core = situation.core
    wrong = "" if answered else UNLINKED
    calls = [calls.name for calls in core.calls.values() if calls.in_flight]
    if situation.arm_behind:
        situation.arm_takes()
    elif calls and answered:
        events.answer_well(situation, calls[0])
        return
    elif calls:
        events.all_overdue(situation)
    elif core.state in MOVES and core.arm.leg_progress is LegProgress.ARRIVED:
        events.stay_over(situation)
    elif _asks_ahead(situation):
        events.asks_next(situation)
        events.all_due(situation)
    elif situation.arm_state != HOLDING:
        events.comes_to_end(situation)
        if core.state is State.EXECUTING:
            events.chunk_ends(situation)
    elif core.state is State.EXECUTING:
        events.chunk_ends(situation)
    elif not answered and core.state in (State.CONNECTING, *MOVES):
        events.lasts_too_long(situation)
    else:
        events.resend(situation)
        events.all_due(situation)
    situation.tick(wrong)


def _asks_ahead(situation: Situation) -> bool:
    """Whether System 1 is called when its time comes while the chunk plays."""
    core = situation.core
    free = core.calls[SYSTEM1].resend_after_s <= NOW_S
    return core.state is State.EXECUTING and core.chunk.ask_next_s < inf and free and wanted(core)


def executes(situation: Situation) -> bool:
    """The task is over, a human is asked, or, without a monitor, the robot works."""
    working = MONITOR not in situation.core.calls and situation.core.state is State.EXECUTING
    return finished(situation) or working


def moves_or_ends(situation: Situation) -> bool:
    """The task is over, a human is asked, or an action begins: what goes on without any of them goes on for ever."""
    return finished(situation) or situation.core.state is State.EXECUTING


# Name -> the step, and whether the end is reached.
CONTINUATIONS: dict[str, tuple[Callable[[Situation], None], Callable[[Situation], bool]]] = {
    "all is well again": (all_is_well, executes),
    "every other call fails": (every_other_call_fails, moves_or_ends),
    "the server is gone for good": (server_is_gone, finished),
    "everything is gone for good": (everything_is_gone, finished),
}


class Ends:
    """Whether every continuation comes to an end, and in how many steps at most. Remembers those that did."""

    def __init__(
        self, step: Callable[[Situation], None], end: Callable[[Situation], bool], key_of: Key = fine
    ) -> None:
        self._step = step
        self._end = end
        self._key_of = key_of
        self._steps: dict[Hashable, int] = {}  # to the end of what was gone through before
        self.longest = 0

    def endless(self, situation: Situation) -> list[str]:
        """The states of a continuation of `situation` that never ends; empty when it ends."""
        way: list[Hashable] = []
        seen: list[str] = []
        left = 0
        while not self._end(situation):
            key = self._key_of(situation)
            if key in self._steps:
                left = self._steps[key]
                break
            seen.append(situation.core.state.value)
            if key in way or len(way) > MAX_STEPS:
                return seen
            way.append(key)
            situation = situation.copy()
            self._step(situation)
            situation.settle()
        for key in reversed(way):
            left += 1
            self._steps[key] = left
        self.longest = max(self.longest, left)
        return []
