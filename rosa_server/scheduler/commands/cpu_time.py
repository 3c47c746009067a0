"""A clock for measuring on a machine that other work shares: it counts what this process computes, and skips waiting.

A model on a CPU whose process has a core for itself takes as long as it computes. While nothing is computed, whoever
waits for a time is there at once; while something is, time passes as it is computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Lock
from typing import Any

LOOKS_EVERY_S = 0.002


class CpuTime:
    """`clock` and `sleep` in s; whoever computes in other threads is told by `begins` and `ends`."""

    def __init__(
        self,
        computed_s: Callable[[], float] = time.process_time,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._computed_s, self._wait = computed_s, wait
        self._skipped_s = 0.0
        self._lock = Lock()
        self._busy = 0  # calls under way

    def clock(self) -> float:
        """CPU time of this process, and what `sleep` has skipped."""
        return self._computed_s() + self._skipped_s

    def sleep(self, seconds: float) -> None:
        """Until so much has been computed, or nothing is being computed any more."""
        until_s = self.clock() + seconds
        while (left_s := until_s - self.clock()) > 0:
            with self._lock:
                idle = self._busy == 0
            if idle:
                self._skipped_s += left_s
            else:
                self._wait(min(left_s, LOOKS_EVERY_S))

    def begins(self) -> None:
        """A call has been made."""
        with self._lock:
            self._busy += 1

    def ends(self, _: object = None) -> None:
        """It has been answered."""
        with self._lock:
            self._busy -= 1


class Counted(Executor):
    """An executor whose calls a clock knows of."""

    def __init__(self, callers: Executor, time: CpuTime) -> None:
        self._callers, self._time = callers, time

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As the executor's."""
        self._time.begins()
        made = self._callers.submit(call, *args, **kwargs)
        made.add_done_callback(self._time.ends)
        return made
