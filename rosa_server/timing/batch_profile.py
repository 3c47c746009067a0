"""How long a batch of each size runs: the one model, for planner, gateway, simulator and emulated worker.

A backend whose batches have fixed shapes (CUDA graphs, compiled models) runs the sizes that it has and pads any other
one to the next. One that runs every size takes a time between those of the neighbouring sizes that were measured.

The gateway corrects the times by what it sees. That may not outlive its cause: a size that has not run for a while is
expected to be as much slower than measured beforehand as those that have, so that none is given up for ever.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

LEARNING_RATE = 0.2  # of every new measurement
MAX_STEP = (
    20.0  # a measurement counts as so many times the estimate at most: one batch that hung is no profile
)
FRESH_WINDOWS = 8  # a size that has not run for so long is no longer known to be slow


class BatchProfile:
    """Estimated service time per batch size, in seconds: measured beforehand or learned from finished batches."""

    def __init__(self, measured_ms: Mapping[int, float] | None = None, padded: bool = False) -> None:
        """`padded`: only the measured sizes run; a batch of another size is padded to the next of them."""
        self._planned = {size: ms / 1000 for size, ms in (measured_ms or {}).items()}
        self._seconds = dict(self._planned)
        self._sizes = sorted(self._seconds)
        self.padded = padded
        self._between: dict[int, float] = {}  # sizes that were asked for and never measured
        self._counts: dict[int, int] = {}  # `best_count` by how many there are
        self._age: dict[int, int] = {}  # windows since a size ran the last time, of those that have

    def runs_as(self, batch_size: int) -> int:
        """The size that a batch of so many requests is run with."""
        if not self.padded:
            return batch_size
        place = bisect_left(self._sizes, batch_size)
        return self._sizes[place] if place < len(self._sizes) else batch_size

    def best_count(self, count: int) -> int:
        """How many of so many requests to run: as many as there are, or fewer where padding would be dearer than
        leaving the rest for the next batch."""
        if not self.padded or count <= 1:
            return count
        known = self._counts.get(count)
        if known is None:
            exact = [size for size in self._sizes if size < count]
            known = self._counts[count] = max([*exact, count], key=lambda n: (n / self._runs_s(n), n))
        return known

    def _runs_s(self, batch_size: int) -> float:
        return max(1e-9, self.service_s(batch_size))

    def learn(self, batch_size: int, service_ms: float) -> None:
        """Move the estimate towards what was just measured."""
        size, new = self.runs_as(batch_size), service_ms / 1000
        old = self._seconds.get(size)
        if old is None:
            self._seconds[size] = new
            self._sizes = sorted(self._seconds)
        else:
            self._seconds[size] = old + LEARNING_RATE * (min(new, MAX_STEP * old) - old)
        self._age[size] = 0
        self._changed()

    def window(self) -> None:
        """A window has passed. What was learned of a size that has not run lately goes back to what was planned, times
        by how much those that have run differ from it; without a plan, to what the next smaller size takes."""
        for size in self._age:
            self._age[size] += 1
        slower = self.slower
        for index, size in enumerate(self._sizes):
            if self._age.get(size, FRESH_WINDOWS) < FRESH_WINDOWS:
                continue
            planned = self._planned.get(size)
            if planned is not None:
                self._seconds[size] = slower * planned
            elif index:
                below = self._seconds[self._sizes[index - 1]]
                self._seconds[size] = min(self._seconds[size], (self._seconds[size] + below) / 2)
        self._changed()

    @property
    def slower(self) -> float:
        """By how much the sizes that have run lately take longer than planned; 1 where none has."""
        fresh = [size for size in self._planned if self._age.get(size, FRESH_WINDOWS) < FRESH_WINDOWS]
        planned_s = sum(self._planned[size] for size in fresh)
        return sum(self._seconds[size] for size in fresh) / planned_s if planned_s else 1.0

    def _changed(self) -> None:
        self._between.clear()
        self._counts.clear()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that were measured."""
        return tuple(self._sizes)

    @property
    def known(self) -> bool:
        """False until the first measurement."""
        return bool(self._seconds)

    def service_s(self, batch_size: int) -> float:
        """Estimate for a batch size: padded or interpolated, proportional beyond the largest known one, 0 before any is
        known."""
        known = self._seconds.get(batch_size)
        if known is None:
            known = self._between.get(batch_size)
        if known is None:
            known = self._between[batch_size] = self._estimate_s(batch_size)
        return known

    def _estimate_s(self, batch_size: int) -> float:
        place = bisect_left(self._sizes, batch_size)
        above = self._sizes[place] if place < len(self._sizes) else None
        below = self._sizes[place - 1] if place else None
        if below is None or (self.padded and above is not None):
            return self._seconds[above] if above is not None else 0.0
        if above is None:
            return self._seconds[below] * batch_size / below
        share = (batch_size - below) / (above - below)
        return self._seconds[below] + share * (self._seconds[above] - self._seconds[below])

    def alone_s(self) -> float:
        """Estimate for one request by itself; while none has run alone, the lower bound that batches give: their share.

        With too high a guess, requests that could be in time would count as late and never run to correct it. Where
        only larger batches exist, one request takes as long as the smallest of them.
        """
        known = self._seconds.get(1)
        if known is not None:
            return known
        if self.padded:
            return self.service_s(1)
        return min((s / size for size, s in self._seconds.items()), default=0.0)
