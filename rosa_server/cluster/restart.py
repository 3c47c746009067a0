"""When a worker that ended may be started again, and when that has no sense any more."""

from __future__ import annotations

FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 30.0
CALM_AFTER_S = 5.0  # a worker that was ready this long has served: its next life starts without delay
MAX_FAILED_STARTS = 5  # lives that ended before any was ever ready


class Backoff:
    """Doubles the delay with every early end, so that a worker that cannot start does not keep the machine busy."""

    def __init__(self) -> None:
        self._delay_s = 0.0
        self._failed_starts = 0
        self._was_ready = False

    @property
    def hopeless(self) -> bool:
        """Whether it has tried often enough: no life was ever ready."""
        return not self._was_ready and self._failed_starts >= MAX_FAILED_STARTS

    def ended(self, ready_s: float | None, now_s: float) -> float:
        """The time at which to start the next one. `ready_s`: since when the ended one was ready; None: it was not."""
        if ready_s is None:
            self._failed_starts += 1
        else:
            self._was_ready = True
            if now_s - ready_s >= CALM_AFTER_S:
                self._delay_s = 0.0
        return self.later(now_s)

    def later(self, now_s: float) -> float:
        """The same where no process could be started: that says nothing about the worker."""
        due_s = now_s + self._delay_s
        self._delay_s = min(LONGEST_DELAY_S, max(FIRST_DELAY_S, 2 * self._delay_s))
        return due_s
