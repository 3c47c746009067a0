"""The attempts at one task: which this is, how many failed, and what the monitor has said in it."""

from __future__ import annotations

from collections import deque


class Attempts:
    """Only this class writes what is here."""

    def __init__(self) -> None:
        self.number = 0
        self.failures = 0  # failed attempts since the start or an operator's decision
        self.verdicts: dict[str, deque[str]] = {}
        self.monitor_says = ""  # the kind of its last text, so that each is told once

    def begin_task(self) -> None:
        """The first attempt at another task."""
        self.number, self.failures = 1, 0

    def begin(self) -> None:
        """What was said about the attempt before no longer counts."""
        self.verdicts.clear()
        self.monitor_says = ""

    def failed(self) -> None:
        """Another one follows."""
        self.number += 1
        self.failures += 1
        self.verdicts.clear()

    def forgive(self) -> None:
        """A person has decided; failures start again from zero."""
        self.failures = 0

    def hear(self, component: str, verdict: str, confirmations: int) -> bool:
        """Whether this verdict was said so often in a row that it counts."""
        seen = self.verdicts.setdefault(component, deque(maxlen=confirmations))
        seen.append(verdict)
        return list(seen).count(verdict) >= confirmations

    def is_news(self, kind: str) -> bool:
        """Whether the monitor's text is of another kind than the last one."""
        news = kind != self.monitor_says
        self.monitor_says = kind
        return news
