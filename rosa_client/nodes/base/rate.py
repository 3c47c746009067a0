"""Publishing at a rate from a loop that runs faster."""

from __future__ import annotations


class Rate:
    """`due` is true `rate_hz` times a second when called every `period_s`. It does not catch up after a pause."""

    def __init__(self, rate_hz: float, period_s: float) -> None:
        self._every_s = 1 / rate_hz
        self._early_s = period_s / 2  # take the nearest period, not the first one after
        self._due_s: float | None = None

    def due(self, now_s: float) -> bool:
        if self._due_s is None:
            self._due_s = now_s
        if now_s < self._due_s - self._early_s:
            return False
        self._due_s = max(self._due_s + self._every_s, now_s)
        return True
