"""How many waiting requests run together, and whether a free worker waits for more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RETURN_MARGIN_S = 0.002  # for the way from the worker back to the gateway
LEARNING_RATE = 0.2
WORTH_IT = 1.02  # leaving out one more of the tightest requests has to gain at least this


class BatchProfile:
    """Estimated service time per batch size: measured beforehand, learned from every finished batch, or both."""

    def __init__(self, measured_ms: Mapping[int, float] | None = None) -> None:
        self._seconds = {size: ms / 1000 for size, ms in (measured_ms or {}).items()}

    def learn(self, batch_size: int, service_ms: float) -> None:
        """Move the estimate towards what was just measured."""
        old = self._seconds.get(batch_size)
        new = service_ms / 1000
        self._seconds[batch_size] = new if old is None else old + LEARNING_RATE * (new - old)

    @property
    def known(self) -> bool:
        """False until the first measurement."""
        return bool(self._seconds)

    def service_s(self, batch_size: int) -> float:
        """Estimate for a batch size: interpolated, proportional beyond the largest known one, 0 before any is known."""
        known = self._seconds.get(batch_size)
        if known is not None:
            return known
        below = max((size for size in self._seconds if size < batch_size), default=None)
        above = min((size for size in self._seconds if size > batch_size), default=None)
        if below is None:
            return self._seconds[above] if above is not None else 0.0
        if above is None:
            return self._seconds[below] * batch_size / below
        share = (batch_size - below) / (above - below)
        return self._seconds[below] + share * (self._seconds[above] - self._seconds[below])

    def alone_s(self) -> float:
        """Estimate for one request by itself. While none ran alone, the least that it can be: its share of a batch.

        Too high a guess would call requests late that are not, and they would never run to prove it wrong.
        """
        known = self._seconds.get(1)
        return (
            known if known is not None else min((s / size for size, s in self._seconds.items()), default=0.0)
        )


@dataclass(frozen=True)
class Run:
    """Run `count` waiting requests now."""

    count: int
    first: int = 0  # how many in front are left out, because somebody is late in any case


@dataclass(frozen=True)
class Wait:
    """Ask again at `until_s`, or when something changes."""

    until_s: float


class Batcher:
    """Batching of one model. It sees deadlines and times only, never requests."""

    def __init__(self, max_batch: int, profile: BatchProfile | None = None) -> None:
        self.max_batch = max_batch
        self.deadline_aware = True  # false: a free worker takes what waits, up to the batch, at once
        self.profile = profile or BatchProfile()
        self._last_arrival_s = -math.inf
        self._gap_s = math.inf  # smoothed time between arrivals

    def arrived(self, now_s: float) -> None:
        """A request came; the time between arrivals says whether waiting for the next one can pay."""
        gap_s = now_s - self._last_arrival_s
        self._last_arrival_s = now_s
        if math.isfinite(gap_s):
            known = math.isfinite(self._gap_s)
            self._gap_s = self._gap_s + LEARNING_RATE * (gap_s - self._gap_s) if known else gap_s

    def decide(self, now_s: float, deadlines_s: Sequence[float], more_may_come: bool) -> Run | Wait:
        """What a free worker does with these waiting requests (in queue order, at least one, none expired).

        `more_may_come` is false when no robot is left that could send another one meanwhile.
        """
        if not self.deadline_aware:
            return Run(min(len(deadlines_s), self.max_batch))
        count = self._largest_in_time(now_s, deadlines_s)
        if count < min(len(deadlines_s), self.max_batch) and self._loses_one(now_s, deadlines_s, count):
            return self._best_goodput(now_s, deadlines_s)
        if count < len(deadlines_s) or count >= self.max_batch or not more_may_come:
            return Run(count)
        if not self._waiting_pays(count):
            return Run(count)
        slack_end_s = min(deadlines_s) - self.profile.service_s(count + 1) - RETURN_MARGIN_S
        until_s = min(slack_end_s, self._last_arrival_s + 2 * self._gap_s)
        return Wait(until_s) if until_s > now_s else Run(count)

    def in_time_alone(self, now_s: float, deadline_s: float) -> bool:
        """Whether a request that runs now, by itself, is expected to meet its deadline."""
        return now_s + RETURN_MARGIN_S + self.profile.alone_s() <= deadline_s

    def _largest_in_time(self, now_s: float, deadlines_s: Sequence[float]) -> int:
        """The largest batch that makes none of its requests late that would be in time alone.

        A request that is too late even alone constrains nothing: the estimate may be wrong, so it is still tried.
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
        """Whether some other waiting request cannot be in time any more after a batch of the first `count`."""
        end_s = now_s + self.profile.service_s(count)
        return any(not self.in_time_alone(end_s, deadline_s) for deadline_s in deadlines_s[count:])

    def _best_goodput(self, now_s: float, deadlines_s: Sequence[float]) -> Run:
        """Somebody will be late: the batch that answers most per second, perhaps without the tightest ones.

        The tightest would otherwise force small batches on a full worker, and make more and more late.
        """
        best, best_hz = Run(1), 0.0
        for first in range(min(len(deadlines_s), 2 * self.max_batch)):  # the search itself must stay short
            count = self._largest_in_time(now_s, deadlines_s[first:])
            rate_hz = count / self.profile.service_s(count)
            if rate_hz > best_hz * WORTH_IT:
                best, best_hz = Run(count, first), rate_hz
        return best

    def _waiting_pays(self, count: int) -> bool:
        """Whether waiting one arrival gap shortens the total latency of these requests and the next one.

        Together: count * gap + (count + 1) * S(count + 1). Apart: count * S(count) + (S(count) - gap) + S(1), because
        the next request first waits for this batch to end. Waiting pays when the former is smaller.
        """
        now_s, more_s = self.profile.service_s(count), self.profile.service_s(count + 1)
        apart_s = (count + 1) * now_s - self._gap_s + self.profile.service_s(1)
        return self._gap_s < now_s and count * self._gap_s + (count + 1) * more_s < apart_s
