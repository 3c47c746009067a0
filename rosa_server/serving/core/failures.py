"""When a model that fails call after call is broken itself, and when its requests are."""

from __future__ import annotations

from collections.abc import Iterable

MAX_IN_A_ROW = 3  # batches of which nothing was answered; then the model is tested
SEVERAL = 2  # robots; what fails for this many is no single robot's bad input
MAX_ROBOTS = 64  # names that are kept


class Failures:
    """Of one worker, since something was last answered."""

    def __init__(self) -> None:
        self._batches = 0
        self._robots: set[str] = set()

    def answered(self) -> None:
        """Something of a batch was answered."""
        self._batches = 0
        self._robots.clear()

    def failed(self, robots: Iterable[str]) -> bool:
        """The model failed at every request of a batch. True when it is to be tested now."""
        self._batches += 1
        self._robots |= set(list(robots)[: MAX_ROBOTS - len(self._robots)])
        return self._batches % MAX_IN_A_ROW == 0

    def broken(self, test_passed: bool, proven: bool) -> bool:
        """What a test means. `proven`: it was a request that had been answered before, so that it tells both ways.

        Otherwise it was the backend's own warm-up, which may run nothing: passed, it says nothing where the requests of
        several robots fail.
        """
        if not test_passed:
            return True
        return not proven and len(self._robots) >= SEVERAL

    @property
    def batches(self) -> int:
        return self._batches
