"""How a day may go on: all is well again, the server is gone for good, or everything is. Each step is determined."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from rosa_client.runtime.commands import HOLDING
from rosa_client.runtime.task_machine import State
from rosa_contract.config import MONITOR
from rosa_sim.explore import events
from rosa_sim.explore.checks import finished
from rosa_sim.explore.world import BLIND, MOVES, UNLINKED, World

MOST_STEPS = 200


def all_is_well(world: World) -> None:
    """The arm obeys, the sensors see, every call is answered well and in time."""
    _go_on(world, answered=True)


def server_is_gone(world: World) -> None:
    """The arm obeys and the sensors see, but no call is answered and the server's welcome is gone."""
    _go_on(world, answered=False)


def everything_is_gone(world: World) -> None:
    """No answer, no picture, and an arm that takes no order: all that happens is that time passes."""
    core = world.core
    events.all_overdue(world)
    events.chunk_ends(world)
    events.lasts_too_long(world)
    events.silent_arm(world)
    for key in core.holds:
        events.held_too_long(world, key)
    world.tick(BLIND)


def _go_on(world: World, answered: bool) -> None:
    """The one next thing that happens when nothing is in its way."""
    core = world.core
    wrong = "" if answered else UNLINKED
    calls = [lane.name for lane in core.lanes.values() if lane.in_flight]
    if world.arm_behind:
        world.arm_takes()
    elif calls and answered:
        events.answer_well(world, calls[0])
        return
    elif calls:
        events.all_overdue(world)
    elif core.stay_until_s is not None:
        events.stay_over(world)
    elif world.arm_state != HOLDING:
        events.comes_to_end(world)
        if core.state is State.EXECUTING:
            events.chunk_ends(world)
    elif core.state is State.EXECUTING:
        events.chunk_ends(world)
    elif not answered and core.state in (State.CONNECTING, *MOVES):
        events.lasts_too_long(world)
    else:
        events.resend(world)
        events.all_due(world)
    world.tick(wrong)


def executes(world: World) -> bool:
    """The task is done, a human is asked, or, where nobody says when it is done, the robot works."""
    working = MONITOR not in world.core.lanes and world.core.state is State.EXECUTING
    return finished(world) or working


# Name -> the step, and when the way is at its end.
CONTINUATIONS: dict[str, tuple[Callable[[World], None], Callable[[World], bool]]] = {
    "all is well again": (all_is_well, executes),
    "the server is gone for good": (server_is_gone, finished),
    "everything is gone for good": (everything_is_gone, finished),
}


class Ends:
    """Whether every way on comes to its end. Remembers what it has walked already."""

    def __init__(self, step: Callable[[World], None], end: Callable[[World], bool]) -> None:
        self._step = step
        self._end = end
        self._ends: set[Hashable] = set()
        self.longest = 0

    def endless(self, world: World) -> list[str]:
        """The states of a way on from `world` that comes to no end; empty when it does."""
        way: list[Hashable] = []
        seen: list[str] = []
        while not self._end(world) and (key := world.key()) not in self._ends:
            seen.append(world.core.state.value)
            if key in way or len(way) > MOST_STEPS:
                return seen
            way.append(key)
            world = world.copy()
            self._step(world)
            world.settle()
        self._ends.update(way)
        self.longest = max(self.longest, len(way))
        return []
