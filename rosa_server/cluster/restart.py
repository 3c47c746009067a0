"""When a worker that ended may be started again."""

from __future__ import annotations

FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 30.0
CALM_AFTER_S = 60.0  # a worker that lived this long starts its next life without delay


class Backoff:
    """Doubles the delay with every early end, so that a worker that cannot start does not keep the machine busy."""

    def __init__(self) -> None:
        self._delay_s = 0.0

    def ended(self, started_s: float, now_s: float) -> float:
        """The time at which to start the next one."""
        if now_s - started_s >= CALM_AFTER_S:
            self._delay_s = 0.0
        due_s = now_s + self._delay_s
        self._delay_s = min(LONGEST_DELAY_S, max(FIRST_DELAY_S, 2 * self._delay_s))
        return due_s
