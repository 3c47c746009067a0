"""A clock for measuring on a machine that other work shares: it counts what this process computes, and skips waiting.

A model on a CPU whose process has a core for itself takes as long as it computes. While nothing is computed, whoever
waits for a time is there at once; while something is, time passes as it is computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

LOOKS_EVERY_S = 0.002


class CpuTime:
    """`clock` and `sleep` in s; `watch` is told of what other threads compute."""

    def __init__(
        self,
        computed_s: Callable[[], float] = time.process_time,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._computed_s, self._wait = computed_s, wait
        self._skipped_s = 0.0
        self._under_way: list[Future[Any]] = []

    def clock(self) -> float:
        """CPU time of this process, and what `sleep` has skipped."""
        return self._computed_s() + self._skipped_s

    def sleep(self, seconds: float) -> None:
        """Until that much has been computed, or nothing is being computed any more."""
        until_s = self.clock() + seconds
        while (left_s := until_s - self.clock()) > 0:
            self._under_way = [one for one in self._under_way if not one.done()]
            if self._under_way:
                self._wait(min(left_s, LOOKS_EVERY_S))
            else:
                self._skipped_s += left_s

    def watch(self, call: Future[Any]) -> None:
        """A call is under way until it is done."""
        self._under_way.append(call)


class Counted(Executor):
    """An executor whose calls a clock knows of."""

    def __init__(self, callers: Executor, time: CpuTime) -> None:
        self._callers, self._time = callers, time

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As the executor's."""
        made = self._callers.submit(call, *args, **kwargs)
        self._time.watch(made)
        return made
