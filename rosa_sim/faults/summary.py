"""What was promised and what happened, as a small table for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rosa_sim.faults.judge import Happened, broken
from rosa_sim.faults.table import fault


@dataclass(frozen=True)
class FaultRun:
    """One fault in one episode."""

    name: str
    seen: Happened

    @property
    def problems(self) -> list[str]:
        """Promises that were broken; empty when all were kept."""
        return broken(fault(self.name), self.seen)

    def plain(self) -> dict[str, Any]:
        """For a JSON file."""
        promise = fault(self.name).promise
        return {
            "fault": self.name,
            "promised": promise,
            "happened": in_words(self.seen),
            "broken": self.problems,
        }


def table(told: Sequence[FaultRun]) -> str:
    """Every fault with its promise and, per episode, what happened."""
    lines: list[str] = []
    for name in dict.fromkeys(one.name for one in told):
        entry = fault(name)
        lines += [f"fault     {name}: {entry.does}", f"promised  {entry.promise}"]
        for number, one in enumerate((one for one in told if one.name == name), 1):
            verdict = "; ".join(one.problems)
            lines.append(f"episode {number} {in_words(one.seen)}")
            lines.append(f"{'':<10}{'BROKEN: ' + verdict if verdict else 'as promised'}")
    return "\n".join(lines)


def in_words(seen: Happened) -> str:
    """What happened in one episode, in one line."""
    parts = []
    if math.isnan(seen.detected_s):
        parts.append("nothing to be noticed")
    else:
        parts.append(f"noticed after {seen.detected_s:.2f} s ({seen.cause}: {seen.action})")
        parts.append(f"arm held {1000 * max(0.0, seen.stop_s):.0f} ms later")
    parts.append(
        f"{seen.alerts} alert{'s' if seen.alerts != 1 else ''}" + (f" ({seen.alert})" if seen.alert else "")
    )
    parts.append(f"{seen.late_commands} commands from late results")
    parts.append(f"task {seen.outcome}, the cell says {seen.truth}")
    return ", ".join(parts)
