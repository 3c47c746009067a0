"""What may happen in every state and must change nothing there: answers to calls that are over, decisions that answer
no open alert, a second start.

They happen to one copy of a world, one after another: when none changes anything, each has met the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any

from rosa_client.runtime.commands import Answer, Decision
from rosa_client.runtime.runtime import CHOICES, RobotRuntime
from rosa_client.runtime.task_machine import IllegalEvent, State
from rosa_contract.messages import OK, Output
from rosa_sim.explore.events import outputs
from rosa_sim.explore.world import NOW_S, World

LONG_OVER = -1  # the number of a call that no lane waits for

Thing = tuple[str, Callable[[World], bool]]  # its name, and whether nothing came of it


def disturbing(world: World) -> tuple[list[str], int]:
    """Names of the harmless things that changed something or were answered wrongly, and how many were tried."""
    things = list(harmless(world))
    together = world.copy()
    if all(_ignored(together, happens) for _, happens in things) and remembered(together) == remembered(
        world
    ):
        return [], len(things)
    return [name for name, happens in things if _disturbs(world, happens)], len(things)


def harmless(world: World) -> Iterator[Thing]:
    """Everything that must change nothing now."""
    core = world.core
    for name in core.lanes:
        for output in (*outputs(name), None):
            yield f"a late answer of {name}", partial(_late, name, output)
            yield f"an answer of {name} to a call that is over", partial(_over, output)
    newest = core.alert_id
    for choice in CHOICES:
        for number in (newest - 1, newest, newest + 1):
            if core.alert is None or number != core.alert.alert_id:
                yield f"operator: {choice} for another alert", partial(_refused, number, choice, "anna")
        yield f"nobody: {choice}", partial(_refused, newest, choice, " ")
    yield "operator: dance", partial(_refused, newest, "dance", "anna")
    if core.state is State.IDLE:
        yield "cancel without a task", lambda one: not one.core.cancel(NOW_S, "enough")
    else:
        yield "start in the middle of a task", _no_second_start


def remembered(world: World) -> tuple[Any, ...]:
    """Everything that the core knows, but for what only counts, tells, or belongs to answers that come late."""
    core = world.core
    own = {name: value for name, value in vars(core).items() if name not in ("lanes", "last_decision")}
    lanes = [
        {name: value for name, value in vars(lane).items() if name not in ("late_discarded", "_overdue")}
        for lane in core.lanes.values()
    ]
    return own, lanes


def _disturbs(world: World, happens: Callable[[World], bool]) -> bool:
    alone = world.copy()
    return not _ignored(alone, happens) or remembered(alone) != remembered(world)


def _ignored(world: World, happens: Callable[[World], bool]) -> bool:
    """Let it happen; a core that raises has not just ignored it."""
    try:
        return happens(world)
    except Exception:
        return False


def _late(name: str, output: Output | None, world: World) -> bool:
    """An answer to a call that the lane knows as overdue, as if one had been missed just now."""
    world.core.lanes[name]._overdue.add(LONG_OVER)
    told = _hear(world.core, LONG_OVER, output)
    return told == [("discard", "late_result")]


def _over(output: Output | None, world: World) -> bool:
    """An answer to the call that has ended last, cancelled, missed or answered before."""
    return _hear(world.core, world.retired, output) in ([], [("discard", "late_result")])


def _hear(core: RobotRuntime, request_id: int, output: Output | None) -> list[Hashable]:
    answer = Answer(request_id, OK if output is not None else "failed", "because", output)
    told = core.answer(NOW_S, answer)
    return [(one.action, one.cause) if isinstance(one, Decision) else type(one) for one in told]


def _refused(number: int, choice: str, by: str, world: World) -> bool:
    refusal, commands = world.core.decide(NOW_S, number, choice, by)
    return bool(refusal) and not commands


def _no_second_start(world: World) -> bool:
    try:
        world.core.start(NOW_S)
    except IllegalEvent:
        return True
    return False
