"""One monotonic clock per machine. Clocks of two machines are never compared: budgets travel, times do not."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Anything that tells this machine's monotonic time in seconds."""

    def now_s(self) -> float: ...


class MonotonicClock:
    """The machine's monotonic clock; a jump of the wall clock does not move it."""

    def now_s(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to: for tests and for the simulator."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} s")
        self._now_s += seconds
