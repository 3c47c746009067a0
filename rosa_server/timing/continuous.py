"""Calls that run at the same time on one GPU with continuous batching, iteration by iteration, as vLLM runs them.

The prompt of a new call is prefilled while all others wait; then the calls decode together, the slower the more there
are. While `n` calls run and no prompt is left, each makes `1 / (S(n) - n P)` of its decoding per second, where `S(n)`
is the time of `n` calls that begin together and `P` that of one prompt. With a steady number of like calls each takes
exactly `S(n)`: its own prompt, those of the `n - 1` others that come meanwhile, and its decoding. Short verdicts beside
long plans take far less, and each holds up the plans by its prompt. Where `P` is not known it counts as 0.

A call joins at once and not with the next iteration: that is a millisecond or two. Calls of several components of one
model run beside each other, each by the times of its own component. Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, TypeVar

Job = TypeVar("Job")
MIN_DECODING = 0.02  # of the whole time: prompts that take all of it were measured too long


@dataclass(slots=True)
class _Running:
    job: Any
    begun_s: float
    prompt_left_s: float
    left: float  # of its decoding; 1 at first, more where it takes longer than usual
    service_s: Callable[[int], float]
    prefill_s: float

    def decoding_s(self, count: int) -> float:
        """How long the whole of it takes while `count` calls run."""
        together_s = self.service_s(count)
        return max(together_s - count * self.prefill_s, MIN_DECODING * together_s, 1e-9)


class Shared(Generic[Job]):
    """What runs now. `next_s`: when the next one ends, if nothing else begins before."""

    def __init__(self, service_s: Callable[[int], float], prefill_s: float = 0.0) -> None:
        """`service_s`: time of a batch by its size. `prefill_s`: of one prompt, a part of it."""
        self._service_s, self._prefill_s = service_s, prefill_s
        self._running: list[_Running] = []
        self._prompts = 0  # calls whose prompt is not done
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
        prefill_s: float | None = None,
    ) -> None:
        """One more runs. `length`: how much longer than usual it takes, as a factor. `service_s`, `prefill_s`: its own
        times."""
        self._pass(now_s)
        prompt_s = self._prefill_s if prefill_s is None else prefill_s
        times = service_s or self._service_s
        self._running.append(_Running(job, now_s, length * prompt_s, length, times, prompt_s))
        self._prompts += prompt_s > 0
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
        self._prompts = sum(one.prompt_left_s > 0 for one in left)
        self._look()
        return known

    def _pass(self, now_s: float) -> None:
        passed_s, count = now_s - self._at_s, len(self._running)
        if self._prompts and passed_s:
            for one in self._running:  # in the order in which they came
                if one.prompt_left_s:
                    done_s = min(passed_s, one.prompt_left_s)
                    passed_s -= done_s
                    one.prompt_left_s -= done_s
                    if one.prompt_left_s > 0:
                        break
                    self._prompts -= 1
        if passed_s:
            times, passed = None, 0.0
            for one in self._running:
                if one.service_s != times:  # most have the same
                    times = one.service_s
                    passed = passed_s / one.decoding_s(count)
                one.left -= passed
        self._at_s = now_s

    def _look(self) -> None:
        count, min_s = len(self._running), inf
        times, takes_s = None, 0.0
        for index, one in enumerate(self._running):
            if one.service_s != times:
                times = one.service_s
                takes_s = one.decoding_s(count)
            left_s = one.left * takes_s
            if left_s < min_s:
                min_s, self._first = left_s, index
        prompts_s = sum(one.prompt_left_s for one in self._running) if self._prompts else 0.0
        self.next_s = self._at_s + prompts_s + max(0.0, min_s)
