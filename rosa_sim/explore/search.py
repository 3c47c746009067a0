"""Breadth first through every state of one cell: each event in each state, until nothing new is found."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rosa_client.runtime import mission
from rosa_client.runtime.runtime import RobotRuntime
from rosa_sim.explore.checks import broken
from rosa_sim.explore.continuations import CONTINUATIONS, Ends
from rosa_sim.explore.events import possible
from rosa_sim.explore.harmless import disturbing
from rosa_sim.explore.keys import Key, fine
from rosa_sim.explore.situation import Situation


@dataclass
class Found:
    """The result of a search."""

    states: int = 0
    transitions: int = 0
    complete: bool = False  # nothing new is left
    rows: set[tuple[Enum, Enum]] = field(default_factory=set)  # of the four transition tables
    longest: dict[str, int] = field(default_factory=dict)  # continuation -> most steps to its end
    problems: list[str] = field(default_factory=list)


def search(
    core: RobotRuntime,
    most_states: int = 10_000_000,
    most_problems: int = 1,
    key_of: Key = fine,
    progress: Callable[[Found, int], None] = lambda found, waiting: None,
) -> Found:
    """Search everything that can happen to `core`, from its start; ends early after `most_problems`.

    `progress` is told before each state what was found so far, and how many states are known that wait for their turn.
    """
    found = Found()
    ends = {name: Ends(*way, key_of) for name, way in CONTINUATIONS.items()}
    first = Situation(core)
    first.settle()
    came_from: dict[Hashable, tuple[Hashable, str]] = {key_of(first): ("", "")}
    waiting = deque([first])
    with _Watch(found.rows):
        while waiting and len(came_from) <= most_states and len(found.problems) < most_problems:
            progress(found, len(waiting))
            situation = waiting.popleft()
            here = key_of(situation)
            found.states += 1
            for name, one in ends.items():
                if way := one.endless(situation):
                    text = f"{name}, but it goes on and on: {' -> '.join(way[-12:])}"
                    found.problems.append(_told(text, here, came_from))
            disturbing_things, tried = disturbing(situation)
            found.transitions += tried
            for thing in disturbing_things:
                found.problems.append(_told(f"{thing}: changed something", here, came_from))
            for event, happen in possible(situation):
                after = situation.copy()
                problems = _happens(situation, event, happen, after)
                after.settle()
                found.transitions += 1
                key = key_of(after)
                found.problems += [_told(f"{event}: {p}", here, came_from) for p in problems]
                if key not in came_from:
                    came_from[key] = (here, event)
                    waiting.append(after)
    found.complete = not waiting
    found.longest = {name: one.longest for name, one in ends.items()}
    return found


def _happens(situation: Situation, event: str, happen: object, after: Situation) -> list[str]:
    """Let it happen to `after`; an exception is a problem too."""
    assert callable(happen)
    try:
        happen(after)
    except Exception as error:
        return [f"raised {type(error).__name__}: {error}"]
    return list(broken(situation, event, after))


def _told(text: str, key: Hashable, came_from: dict[Hashable, tuple[Hashable, str]]) -> str:
    """The problem and the shortest sequence of events that leads to it."""
    steps: list[str] = []
    while key in came_from and came_from[key][1]:
        key, event = came_from[key]
        steps.append(event)
    return f"{text}\n    after: " + "; ".join(reversed(steps))


class _Watch:
    """Notes every row of the transition tables that is used."""

    def __init__(self, rows: set[tuple[Enum, Enum]]) -> None:
        self._rows = rows
        self._before = mission.advance

    def __enter__(self) -> None:
        def noting(table: Any, state: Any, event: Any) -> Any:
            after = self._before(table, state, event)
            self._rows.add((state, event))
            return after

        mission.advance = noting

    def __exit__(self, *_: object) -> None:
        mission.advance = self._before
