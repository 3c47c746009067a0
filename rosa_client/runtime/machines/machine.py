"""A state machine is one literal table: (state, event) -> next state. An illegal event raises and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class Symbol(Enum):
    """A state or an event. It is hashed by what it is, not by its name, as a table is asked in every control period."""

    __hash__ = object.__hash__


class IllegalEvent(Exception):
    """An event that the table does not allow in the present state."""

    def __init__(self, table: Mapping[tuple[S, E], S], state: S, event: E) -> None:
        allowed = ", ".join(sorted(e.value for s, e in table if s is state)) or "none"
        super().__init__(f"event {event.value!r} is not allowed in state {state.value!r}; allowed: {allowed}")
        self.state = state
        self.event = event


def advance(table: Mapping[tuple[S, E], S], state: S, event: E) -> S:
    """The state that follows `event`. Raises `IllegalEvent` for a pair that is not in the table."""
    try:
        return table[state, event]
    except KeyError:
        raise IllegalEvent(table, state, event) from None


def diagram(table: Mapping[tuple[S, E], S], first: S) -> str:
    """The table as a Mermaid state diagram that begins in `first`, for the docs."""
    lines = ["stateDiagram-v2", f"    [*] --> {drawn(first)}"]
    lines += [
        f"    {drawn(source)} --> {drawn(target)}: {drawn(event)}"
        for (source, event), target in table.items()
    ]
    return "\n".join(lines)


def drawn(symbol: Enum) -> str:
    """The name of a state or an event in a diagram, whose names are single words."""
    return symbol.name.lower()
