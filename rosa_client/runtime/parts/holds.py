"""What holds the arm, and the counters that call a human when it happens too often in a row."""

from __future__ import annotations

from dataclasses import dataclass

from rosa_client.runtime.machines import machine
from rosa_client.runtime.machines.side_machines import (
    SAFETY_VERDICTS,
    UNFINISHED,
    Safety,
    SafetyEvent,
    Unfinished,
    UnfinishedEvent,
)
from rosa_contract.config.tasks import GOAL_COUPLED
from rosa_contract.fallbacks import FallbackAction


@dataclass(frozen=True)
class Held:
    """A cause that holds the arm until it clears."""

    action: FallbackAction
    since_s: float


class Holds:
    """Causes by name, what safety said last, and what was interrupted. Only this class writes what is here."""

    def __init__(self, guarded: bool) -> None:
        """`guarded`: the task has a safety component."""
        self.by: dict[str, Held] = {}  # sensors, components or the arm that `holding` waits for, by name
        self.safety = Safety.UNKNOWN if guarded else Safety.UNGUARDED
        self.unfinished = Unfinished.NOTHING
        self.unsafe_in_a_row = 0
        self.cut_short_in_a_row = 0
        self.stops_in_a_row = 0  # since the last chunk that was carried out

    def add(self, key: str, action: FallbackAction, now_s: float) -> None:
        """`key` holds the arm now.

        System 1 and 2 do not count as stops: only an answer ends their misses in a row.
        """
        before = self.by.get(key)
        kind = key.partition(":")[0]  # all sensors are one cause
        if key not in GOAL_COUPLED and not any(other.partition(":")[0] == kind for other in self.by):
            self.stops_in_a_row += 1
        self.by[key] = Held(action, before.since_s if before is not None else now_s)

    def clears(self, key: str) -> bool:
        """`key` no longer holds the arm; whether it did."""
        return self.by.pop(key, None) is not None

    def let_go(self) -> None:
        """Nothing holds it, since an operator, the end of the task or another attempt comes first."""
        self.by.clear()

    def acted(self) -> None:
        """A chunk was carried out."""
        self.cut_short_in_a_row = self.stops_in_a_row = 0

    def cut_short(self) -> int:
        """The arm cut a chunk short; how many it has in a row."""
        self.cut_short_in_a_row += 1
        return self.cut_short_in_a_row

    def forgive(self) -> None:
        """Every counter starts again from zero, since a person knows of what was."""
        self.unsafe_in_a_row = self.cut_short_in_a_row = self.stops_in_a_row = 0

    def says_unsafe(self) -> None:
        """The safety component says so, once more in a row."""
        self.safety_goes(SafetyEvent.SAYS_UNSAFE)
        self.unsafe_in_a_row += 1

    def says_safe(self) -> None:
        """The safety component says so."""
        self.safety_goes(SafetyEvent.SAYS_SAFE)
        self.unsafe_in_a_row = 0

    def safety_goes(self, event: SafetyEvent) -> None:
        """Follow the table of safety's verdicts."""
        self.safety = machine.advance(SAFETY_VERDICTS, self.safety, event)

    def unfinished_goes(self, event: UnfinishedEvent) -> None:
        """Follow the table of what was interrupted."""
        self.unfinished = machine.advance(UNFINISHED, self.unfinished, event)
