"""How long a batch of each size runs, which batches keep a deadline, and how many waiting requests run together: one
model, for planner, gateway, simulator and emulated worker.

A backend whose batches have fixed shapes (CUDA graphs, compiled models) runs the sizes that it has and pads any other
one to the next. One that runs every size takes a time between those of the neighbouring sizes that were measured.

The gateway corrects the times by what it sees. That may not outlive its cause: a size that has not run for a while is
expected to be as much slower than measured beforehand as those that have, so that none is given up for ever.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

LEARNING_RATE = 0.2  # of every new measurement
MAX_STEP = (
    20.0  # a measurement counts as at most this multiple of the estimate: one batch that hung is no profile
)
# An estimate counts as at most this multiple of a measurement: a batch can be slow by accident, and not fast.
MAX_FALL = 2.0
FRESH_WINDOWS = 8  # a size that has not run for so long is no longer known to be slow

SLACK = 0.98  # of an SLO: what a batch and its calls' wait for a server may take
SPARE = 1.07  # a slow batch takes this multiple of its usual time, as far as nothing was measured
MIN_WAIT_S = 0.005  # of a call with a permit, where robots answer at once
RETURN_MARGIN_S = 0.002  # reserved for the answer's way from the worker back to the gateway
# The next batch is sent this long before the one that runs ends: a call that still waits can be replaced.
PREFETCH_S = 0.002
URGENT_S = 5.0  # longer than an SLO of a robot that stands still until it is answered

GAP_SMOOTHING = 0.2  # weight of the newest gap between arrivals
MIN_GOODPUT_GAIN = 1.02  # leaving out one more of the tightest requests has to gain at least this factor


class BatchProfile:
    """Estimated service time per batch size, in seconds: measured beforehand or learned from finished batches."""

    def __init__(self, measured_ms: Mapping[int, float] | None = None, padded: bool = False) -> None:
        """`padded`: only the measured sizes run; a batch of another size is padded to the next of them."""
        self._planned = {size: ms / 1000 for size, ms in (measured_ms or {}).items()}
        self._planned_sizes = sorted(self._planned)
        self._seconds = dict(self._planned)
        self._sizes = sorted(self._seconds)
        self._shapes = self._planned_sizes if padded else []  # the only sizes that run; none: every one
        self._between: dict[int, float] = {}  # sizes that were asked for and never measured
        self._counts: dict[int, int] = {}  # `best_count` by how many there are
        self._age: dict[int, int] = {}  # windows since a size ran the last time, of those that have

    def has_only(self, sizes: Sequence[int]) -> None:
        """The backend has told the only sizes that it has; none: it runs each. What was planned counts more."""
        if self._planned:
            return
        self._shapes = sorted(sizes)
        for size in [size for size in self._sizes if self._shapes and size not in self._shapes]:
            del self._seconds[size], self._age[size]  # of another backend, before
        self._sizes = sorted(self._seconds)
        self._changed()

    @property
    def padded(self) -> bool:
        """Whether a batch is padded to the next size that the backend has."""
        return bool(self._shapes)

    def runs_as(self, batch_size: int) -> int:
        """The size that a batch of `batch_size` requests is run with."""
        place = bisect_left(self._shapes, batch_size)
        return self._shapes[place] if place < len(self._shapes) else batch_size

    def best_count(self, count: int) -> int:
        """How many of `count` requests to run: as many as there are, or fewer where padding would be dearer than
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
            old = min(old, MAX_FALL * new)
            self._seconds[size] = old + LEARNING_RATE * (min(new, MAX_STEP * old) - old)
        self._age[size] = 0
        for smaller in self._sizes[: bisect_left(self._sizes, size)]:  # none takes longer than a larger one
            self._seconds[smaller] = min(self._seconds[smaller], self._seconds[size])
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
            if self._planned:
                self._seconds[size] = slower * self._planned_s(size)
            elif index:
                below = self._seconds[self._sizes[index - 1]]
                self._seconds[size] = min(self._seconds[size], (self._seconds[size] + below) / 2)
        self._changed()

    @property
    def slower(self) -> float:
        """By how much the sizes that have run lately take longer than planned; 1 where none has."""
        fresh = [size for size, age in self._age.items() if age < FRESH_WINDOWS] if self._planned else []
        planned_s = sum(self._planned_s(size) for size in fresh)
        return sum(self._seconds[size] for size in fresh) / planned_s if planned_s else 1.0

    def _planned_s(self, batch_size: int) -> float:
        """What was measured beforehand, or follows from it."""
        return _estimate_s(self._planned, self._planned_sizes, self.padded, batch_size)

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
            known = _estimate_s(self._seconds, self._sizes, self.padded, self.runs_as(batch_size))
            self._between[batch_size] = known
        return known

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


def _estimate_s(seconds: Mapping[int, float], sizes: Sequence[int], padded: bool, batch_size: int) -> float:
    """From the times of some sizes: padded or interpolated, proportional beyond the largest, 0 where none is known."""
    place = bisect_left(sizes, batch_size)
    above = sizes[place] if place < len(sizes) else None
    below = sizes[place - 1] if place else None
    if above is not None and (below is None or padded or above == batch_size):
        return seconds[above]
    if below is None:
        return 0.0
    if above is None:
        return seconds[below] * batch_size / below
    return seconds[below] + (batch_size - below) / (above - below) * (seconds[above] - seconds[below])


def in_time(batch_s: float, wait_s: float, slo_s: float, spare: float = SPARE) -> bool:
    """Whether a batch whose calls have permits keeps the SLO with some slack. `wait_s`: see `Permits.wait_s`."""
    return spare * batch_s + max(wait_s, MIN_WAIT_S) <= SLACK * slo_s


def largest(
    size: int, service_s: Callable[[int], float], wait_s: float, slo_s: float, spare: float = SPARE
) -> int:
    """The largest batch of at most `size` that is in time. Where none is after so long a wait, the largest after the
    shortest one: a few lost messages make a wait that most calls do not have, and a batch that takes longer than the
    SLO by itself makes all of them late. Where none is even then, a smaller one helps nobody: `size`."""
    for each_s in (wait_s, MIN_WAIT_S):
        for each in range(size, 0, -1):
            if in_time(service_s(each), each_s, slo_s, spare):
                return each
    return size


def together(sizes: Sequence[int], profile: BatchProfile) -> list[int]:
    """Of waiting calls, given by the largest batch that each may be in, the positions of those that run together with
    the first one: of the batches that are no larger than any of its calls allows, the one with most calls per second.
    """
    first = sizes[0]
    if min(sizes) >= first:
        return list(range(profile.best_count(min(first, len(sizes)))))
    best, best_hz = [0], 0.0
    for limit in sorted({size for size in sizes if size <= first}):
        found = [index for index, size in enumerate(sizes) if size >= limit][:limit]
        count = profile.best_count(len(found))
        hz = count / max(1e-9, profile.service_s(count))
        if hz > best_hz:
            best, best_hz = found[:count], hz
    return best


@dataclass(frozen=True)
class Run:
    """Run `count` waiting requests now."""

    count: int
    # How many with the tightest deadlines are left out, because some request will be late whatever is run.
    first: int = 0


ALONE = Run(1)


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
        if len(deadlines_s) == 1 and not more_may_come:
            return ALONE  # as everything below would say
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
            if rate_hz > best_hz * MIN_GOODPUT_GAIN:
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
