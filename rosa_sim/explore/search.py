"""Breadth first through every state of one cell: each event in each state, until nothing new is found."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from rosa_client.runtime.machines import machine
from rosa_client.runtime.runtime import RobotRuntime
from rosa_sim.explore.checks import broken
from rosa_sim.explore.continuations import CONTINUATIONS, Ends
from rosa_sim.explore.events import possible
from rosa_sim.explore.harmless import disturbing
from rosa_sim.explore.keys import Key, fine
from rosa_sim.explore.situation import Situation

S = TypeVar("S")
Step = tuple[str, S, list[str]]  # an event, what it led to, and what it broke


@dataclass
class SearchResult:
    """The result of a search."""

    states: int = 0
    transitions: int = 0
    complete: bool = False  # nothing new is left
    rows: set[tuple[Enum, Enum]] = field(default_factory=set)  # of the four transition tables
    longest: dict[str, int] = field(default_factory=dict)  # continuation -> most steps to its end
    problems: list[str] = field(default_factory=list)


def search(
    core: RobotRuntime,
    max_states: int = 10_000_000,
    max_problems: int = 1,
    key_of: Key = fine,
    progress: Callable[[SearchResult, int], None] = lambda found, waiting: None,
) -> SearchResult:
    """Search everything that can happen to `core`, from its start; ends early after `max_problems`.

    `progress` is told before each state what was found so far, and how many states are known that wait for their turn.
    """
    found = SearchResult()
    ends = {name: Ends(*way, key_of) for name, way in CONTINUATIONS.items()}
    first = Situation(core)
    first.settle()

    def look(situation: Situation) -> Iterator[str]:
        for name, one in ends.items():
            if way := one.endless(situation):
                yield f"{name}, but it goes on and on: {' -> '.join(way[-12:])}"
        disturbing_things, tried = disturbing(situation)
        found.transitions += tried
        for thing in disturbing_things:
            yield f"{thing}: changed something"

    with _Watch(found.rows):
        breadth_first(found, first, key_of, look, _steps, max_states, max_problems, progress)
    found.longest = {name: one.longest for name, one in ends.items()}
    return found


def breadth_first(
    found: SearchResult,
    first: S,
    key_of: Callable[[S], Hashable],
    look: Callable[[S], Iterable[str]],
    steps: Callable[[S], Iterator[Step[S]]],
    max_states: int,
    max_problems: int = 1,
    progress: Callable[[SearchResult, int], None] = lambda found, waiting: None,
) -> None:
    """Every state that `steps` lead to from `first`, each key once, written to `found`.

    `look` tells what is broken in a state itself. Each problem is told with the shortest way to it.
    """
    came_from: dict[Hashable, tuple[Hashable, str]] = {key_of(first): ("", "")}
    waiting = deque([first])
    while waiting and len(came_from) <= max_states and len(found.problems) < max_problems:
        progress(found, len(waiting))
        state = waiting.popleft()
        here = key_of(state)
        found.states += 1
        found.problems += [_told(text, here, came_from) for text in look(state)]
        for event, after, problems in steps(state):
            found.transitions += 1
            found.problems += [_told(f"{event}: {problem}", here, came_from) for problem in problems]
            key = key_of(after)
            if key not in came_from:
                came_from[key] = (here, event)
                waiting.append(after)
    found.complete = not waiting


def _steps(situation: Situation) -> Iterator[Step[Situation]]:
    for event, happen in possible(situation):
        after = situation.copy()
        problems = _happens(situation, event, happen, after)
        after.settle()
        yield event, after, problems


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
        self._before = machine.advance

    def __enter__(self) -> None:
        def noting(table: Any, state: Any, event: Any) -> Any:
            after = self._before(table, state, event)
            self._rows.add((state, event))
            return after

        machine.advance = noting

    def __exit__(self, *_: object) -> None:
        machine.advance = self._before
