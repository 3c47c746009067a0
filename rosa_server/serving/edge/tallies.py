"""Counters and histograms of what happens at every request: written by one thread, shown by another one.

Those of prometheus_client take a lock for each number and look for a bucket one bound after the other, which is a
twentieth of what a request costs the gateway. These add to plain numbers, and are put into the client's form when the
page is asked for. It may then miss an event of that very moment in one number and have it in another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector


class Tallies(Collector):
    """A counter for each of the values that its labels have had."""

    def __init__(self, name: str, words: str, labels: Sequence[str]) -> None:
        self._about = name, words
        self._labelnames = tuple(labels)
        self._counts: dict[tuple[str, ...], int] = {}

    def inc(self, labels: tuple[str, ...]) -> None:
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def describe(self) -> Iterator[CounterMetricFamily]:
        """Its name, without a value."""
        yield CounterMetricFamily(*self._about, labels=self._labelnames)

    def collect(self) -> Iterator[CounterMetricFamily]:
        [family] = self.describe()
        for labels, count in list(self._counts.items()):
            family.add_metric(labels, count)
        yield family


class Spread:
    """How often a value lay in which bucket."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last one: above all bounds
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Spreads(Collector):
    """A histogram for each value that its label has had. A bucket holds what is at most its bound."""

    def __init__(self, name: str, words: str, label: str, bounds: Sequence[float]) -> None:
        self._about = name, words
        self._labelnames = (label,)
        self._bounds = tuple(bounds)
        self._names = [*(str(float(bound)) for bound in bounds), "+Inf"]
        self._spreads: dict[str, Spread] = {}

    def observe(self, label: str, value: float) -> None:
        spread = self._spreads.get(label)
        if spread is None:
            spread = self._spreads[label] = Spread(self._bounds)
        spread.observe(value)

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """Its name, without a value."""
        yield HistogramMetricFamily(*self._about, labels=self._labelnames)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        [family] = self.describe()
        for label, spread in list(self._spreads.items()):
            total, counts, so_far = spread.total, list(spread.counts), 0
            buckets = []
            for name, count in zip(self._names, counts, strict=True):
                so_far += count
                buckets.append((name, float(so_far)))
            family.add_metric([label], buckets, total)
        yield family
