"""How many waiting requests run together, and whether a free worker waits for more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rosa_server.timing.batch_profile import BatchProfile
from rosa_server.timing.margins import RETURN_MARGIN_S

GAP_SMOOTHING = 0.2  # weight of the newest gap between arrivals
WORTH_IT = 1.02  # leaving out one more of the tightest requests has to gain at least this factor


@dataclass(frozen=True)
class Run:
    """Run `count` waiting requests now."""

    count: int
    # How many with the tightest deadlines are left out, because some request will be late whatever is run.
    first: int = 0


@dataclass(frozen=True)
class Wait:
    """Ask again at `until_s`, or when something changes."""

    until_s: float


class Batcher:
    """Batching for one replica. It sees deadlines and times, never requests."""

    def __init__(self, max_batch: int, profile: BatchProfile | None = None) -> None:
        self.max_batch = max_batch
        self.deadline_aware = True  # false: a free worker at once takes what waits, up to `max_batch`
        self.waits = True  # false: it never waits for more requests
        self.profile = profile or BatchProfile()
        self._last_arrival_s = -math.inf
        self._gap_s = math.inf  # smoothed time between arrivals

    def arrived(self, now_s: float) -> None:
        """A request arrived; the gap between arrivals tells whether waiting for the next one can pay."""
        gap_s = now_s - self._last_arrival_s
        self._last_arrival_s = now_s
        if math.isfinite(gap_s):
            known = math.isfinite(self._gap_s)
            self._gap_s = self._gap_s + GAP_SMOOTHING * (gap_s - self._gap_s) if known else gap_s

    def decide(self, now_s: float, deadlines_s: Sequence[float], more_may_come: bool) -> Run | Wait:
        """What a free worker does with the waiting requests (in queue order, at least one, none expired).

        `more_may_come` is false when no robot is left that could send another request meanwhile.
        """
        if not self.deadline_aware:
            return Run(min(len(deadlines_s), self.max_batch))
        count = self.profile.best_count(self._largest_in_time(now_s, deadlines_s))
        if count < min(len(deadlines_s), self.max_batch) and self._loses_one(now_s, deadlines_s, count):
            return self._best_goodput(now_s, deadlines_s)
        if count < len(deadlines_s) or count >= self.max_batch or not (more_may_come and self.waits):
            return Run(count)
        if not self._waiting_pays(count):
            return Run(count)
        slack_end_s = min(deadlines_s) - self.profile.service_s(count + 1) - RETURN_MARGIN_S
        until_s = min(slack_end_s, self._last_arrival_s + 2 * self._gap_s)
        return Wait(until_s) if until_s > now_s else Run(count)

    def in_time_alone(self, now_s: float, deadline_s: float) -> bool:
        """Whether a request that runs now, by itself, is expected to meet its deadline."""
        return self.alone_ends_s(now_s) <= deadline_s

    def alone_ends_s(self, now_s: float, beside: int = 0) -> float:
        """When a request that runs now, by itself, is expected to be answered. `beside`: requests that already run on
        the same worker, where that gives each its own answer."""
        runs_s = self.profile.service_s(beside + 1) if beside else self.profile.alone_s()
        return now_s + RETURN_MARGIN_S + runs_s

    def _largest_in_time(self, now_s: float, deadlines_s: Sequence[float]) -> int:
        """The largest batch in which every request that would be in time alone is still in time.

        A request that is late even alone does not limit the batch; it is still run, as the estimate may be wrong.
        """
        limit = min(len(deadlines_s), self.max_batch)
        spare_s = now_s + RETURN_MARGIN_S
        tightest_s, best = math.inf, 1
        for size in range(1, limit + 1):
            deadline_s = deadlines_s[size - 1]
            if self.in_time_alone(now_s, deadline_s):
                tightest_s = min(tightest_s, deadline_s)
            if spare_s + self.profile.service_s(size) <= tightest_s:
                best = size
        return best

    def _loses_one(self, now_s: float, deadlines_s: Sequence[float], count: int) -> bool:
        """Whether running the first `count` makes some other waiting request late."""
        end_s = now_s + self.profile.service_s(count)
        return any(not self.in_time_alone(end_s, deadline_s) for deadline_s in deadlines_s[count:])

    def _best_goodput(self, now_s: float, deadlines_s: Sequence[float]) -> Run:
        """Some request will be late: run the batch that answers most per second, if need be without the tightest.

        Otherwise the tightest would force small batches on a full worker, and more and more would be late.
        """
        best, best_hz = Run(1), 0.0
        kept = list(range(len(deadlines_s)))
        tightest = sorted(kept, key=lambda index: deadlines_s[index])
        # Bounded, because this runs in the gateway's loop.
        for first in range(min(len(deadlines_s), 2 * self.max_batch)):
            if first:
                kept.remove(tightest[first - 1])
            first_s = [deadlines_s[index] for index in kept[: self.max_batch]]
            count = self.profile.best_count(self._largest_in_time(now_s, first_s))
            rate_hz = count / self.profile.service_s(count)
            if rate_hz > best_hz * WORTH_IT:
                best, best_hz = Run(count, first), rate_hz
        return best

    def _waiting_pays(self, count: int) -> bool:
        """Whether waiting one arrival gap shortens the total latency of these requests and the next one.

        Together: count * gap + (count + 1) * S(count + 1). Apart: count * S(count) + (S(count) - gap) + S(1), because
        the next request then waits for this batch to end. Waiting pays when the first sum is smaller.
        """
        now_s, more_s = self.profile.service_s(count), self.profile.service_s(count + 1)
        apart_s = (count + 1) * now_s - self._gap_s + self.profile.service_s(1)
        return self._gap_s < now_s and count * self._gap_s + (count + 1) * more_s < apart_s


def without_tightest(deadlines_s: Sequence[float], count: int) -> list[int]:
    """The indices of all but the `count` tightest deadlines, in the order in which they came."""
    if not count:
        return list(range(len(deadlines_s)))
    left_out = set(sorted(range(len(deadlines_s)), key=lambda index: deadlines_s[index])[:count])
    return [index for index in range(len(deadlines_s)) if index not in left_out]
