"""What may happen in every state and must change nothing there: answers to calls that are over, decisions that answer
no open alert, a second start.

They happen to one copy of a situation, one after another: when none changes anything, each has met the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any

from rosa_client.runtime.commands import Decision
from rosa_client.runtime.machines.machine import IllegalEvent
from rosa_client.runtime.machines.task_machine import State
from rosa_client.runtime.runtime import CHOICES, RobotRuntime
from rosa_contract.wire.messages import Output
from rosa_sim.explore.events import outputs, response
from rosa_sim.explore.situation import NOW_S, PARTS, Situation

LONG_OVER = -1  # a request id that no component waits for

Thing = tuple[str, Callable[[Situation], bool]]  # its name, and whether it had no effect


def disturbing(situation: Situation) -> tuple[list[str], int]:
    """Names of harmless things that had an effect, and how many were tried."""
    things = list(harmless(situation))
    together = situation.copy()
    if all(_ignored(together, happens) for _, happens in things) and remembered(together) == remembered(
        situation
    ):
        return [], len(things)
    return [name for name, happens in things if _disturbs(situation, happens)], len(things)


def harmless(situation: Situation) -> Iterator[Thing]:
    """Everything that must change nothing now."""
    core = situation.core
    for name in core.calls:
        for output in (*outputs(name), None):
            yield f"a late answer of {name}", partial(_late, name, output)
            yield f"an answer of {name} to a call that is over", partial(_over, output)
    newest = core.person.newest
    for choice in CHOICES:
        for number in (newest - 1, newest, newest + 1):
            if core.person.alert is None or number != core.person.alert.alert_id:
                yield f"operator: {choice} for another alert", partial(_refused, number, choice, "anna")
        yield f"nobody: {choice}", partial(_refused, newest, choice, " ")
    yield "operator: dance", partial(_refused, newest, "dance", "anna")
    if core.state is State.IDLE:
        yield "cancel without a task", lambda one: not one.runtime.cancel(NOW_S, "enough")
    else:
        yield "start in the middle of a task", _no_second_start


def remembered(situation: Situation) -> tuple[Any, ...]:
    """What the core remembers, except counters, its last decision, and the book of late answers."""
    core = situation.core
    without = ("calls", "last_decision", *PARTS)
    own = {name: value for name, value in vars(core).items() if name not in without}
    parts = [vars(getattr(core, part)) for part in PARTS]
    calls = [
        {name: value for name, value in vars(calls).items() if name not in ("late_discarded", "_overdue")}
        for calls in core.calls.values()
    ]
    return own, parts, calls


def _disturbs(situation: Situation, happens: Callable[[Situation], bool]) -> bool:
    alone = situation.copy()
    return not _ignored(alone, happens) or remembered(alone) != remembered(situation)


def _ignored(situation: Situation, happens: Callable[[Situation], bool]) -> bool:
    """Let it happen; a core that raises has not ignored it."""
    try:
        return happens(situation)
    except Exception:
        return False


def _late(name: str, output: Output | None, situation: Situation) -> bool:
    """An answer to a call that is known as overdue, as if it had been missed just now."""
    situation.core.calls[name]._overdue.add(LONG_OVER)
    told = _hear(situation.runtime, LONG_OVER, output)
    return told == [("discard", "late_result")]


def _over(output: Output | None, situation: Situation) -> bool:
    """An answer to the last call that ended: cancelled, missed or answered before."""
    return _hear(situation.runtime, situation.retired, output) in ([], [("discard", "late_result")])


def _hear(runtime: RobotRuntime, request_id: int, output: Output | None) -> list[Hashable]:
    commands = runtime.answer(NOW_S, response(request_id, output))
    return [(one.action, one.cause) if isinstance(one, Decision) else type(one).__name__ for one in commands]


def _refused(number: int, choice: str, by: str, situation: Situation) -> bool:
    refusal, commands = situation.runtime.decide(NOW_S, number, choice, by)
    return refusal is not None and not commands


def _no_second_start(situation: Situation) -> bool:
    try:
        situation.runtime.start(NOW_S)
    except IllegalEvent:
        return True
    return False
