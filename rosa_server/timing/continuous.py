"""Calls that run at the same time on one GPU, as with continuous batching: each gets on the slower the more there are.

While `n` calls run, each makes `1 / S(n)` of its way per second, where `S(n)` is the time of a batch of that size. With
a steady number of calls each takes exactly `S(n)`, although it comes and goes by itself. Calls of several components of
one model run beside each other, each by the times of its own component. Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, TypeVar

Job = TypeVar("Job")


@dataclass(slots=True)
class _Running:
    job: Any
    begun_s: float
    left: float  # of its way; 1 at first, more where it takes longer than usual
    service_s: Callable[[int], float]


class Shared(Generic[Job]):
    """What runs now. `next_s`: when the next one ends, if nothing else begins before."""

    def __init__(self, service_s: Callable[[int], float]) -> None:
        """`service_s`: time of a batch by its size."""
        self._service_s = service_s
        self._running: list[_Running] = []
        self._at_s = 0.0
        self._first = 0  # which of them ends at `next_s`
        self.next_s = inf

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Job]:
        return (one.job for one in self._running)

    def begin(
        self,
        now_s: float,
        job: Job,
        length: float = 1.0,
        service_s: Callable[[int], float] | None = None,
    ) -> None:
        """One more runs. `length`: how much longer than usual it takes, as a factor. `service_s`: its own times."""
        self._pass(now_s)
        self._running.append(_Running(job, now_s, length, service_s or self._service_s))
        self._look()

    def end(self, now_s: float) -> tuple[Job, float]:
        """Take out the one that ends at `next_s`, which is now; returns it and when it began."""
        self._pass(now_s)
        first = self._running.pop(self._first)
        self._look()
        return first.job, first.begun_s

    def drop(self, now_s: float, job: Job) -> bool:
        """Nobody wants this one any more: the others get on the faster. False when it does not run."""
        self._pass(now_s)
        left = [one for one in self._running if one.job is not job]
        known = len(left) < len(self._running)
        self._running = left
        self._look()
        return known

    def _pass(self, now_s: float) -> None:
        passed_s, count = now_s - self._at_s, len(self._running)
        if passed_s:
            times, passed = None, 0.0
            for one in self._running:
                if one.service_s != times:  # most have the same
                    times = one.service_s
                    passed = passed_s / max(times(count), 1e-9)
                one.left -= passed
        self._at_s = now_s

    def _look(self) -> None:
        count, min_s = len(self._running), inf
        times, takes_s = None, 0.0
        for index, one in enumerate(self._running):
            if one.service_s != times:
                times = one.service_s
                takes_s = times(count)
            left_s = one.left * takes_s
            if left_s < min_s:
                min_s, self._first = left_s, index
        self.next_s = self._at_s + max(0.0, min_s)
