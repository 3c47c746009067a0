"""One monotonic clock per machine. Clocks of two machines are never compared: messages carry budgets, never times."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of this machine's monotonic time in seconds."""

    def now_s(self) -> float: ...


class MonotonicClock:
    """The machine's monotonic clock; a jump of the wall clock does not move it."""

    def now_s(self) -> float:
        return time.monotonic()
