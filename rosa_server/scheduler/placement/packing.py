"""Putting request streams on workers of one kind: isolated packing with compaction (ROSA 3.4.3), and level
packing (ours).

A kind of worker hosts one model for one component (or, as an option, for several components). Streams of one demand are
alike, so a worker's content is a list of `Load`. Sizes and limits are request rates; for a worker of several components
they are utilisations. A worker is feasible when its sizes add up to no more than the lowest limit among its loads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf

from rosa_server.scheduler.placement.spreading import Bin, balanced, spread
from rosa_server.scheduler.profiles.catalog import Catalog, Load

__all__ = ["SLACK", "Bin", "Kind", "Packer", "balanced"]

SLACK = 1e-9


@dataclass(frozen=True)
class Kind:
    """What a worker can be: a model, for the components it answers."""

    model: str
    components: tuple[str, ...]


class Packer:
    """Packs the demands of one kind; `demands` are `Load`s with all streams of a class and component."""

    def __init__(self, catalog: Catalog, kind: Kind, demands: Sequence[Load]) -> None:
        self.catalog, self.kind = catalog, kind
        self.demands = [demand for demand in demands if demand.streams > 0]
        self._scale = self._scales()
        self.limits = {id(d): self._limit(d) for d in self.demands}

    def _scales(self) -> dict[str, tuple[float, str | None]]:
        """Component -> (what a size is divided by, batching label), so that sizes of several components add up."""
        names = sorted({d.component for d in self.demands})
        if len(names) <= 1:
            return dict.fromkeys(names, (1.0, None))
        tables = [{c.label: c for c in self.catalog.configurations(self.kind.model, name)} for name in names]
        labels = sorted(set.intersection(*(set(table) for table in tables)))

        def worst(label: str) -> float:
            return min(
                self.catalog.cap(t[label], d.slo_ms) / t[label].max_throughput_hz
                for t, n in zip(tables, names, strict=True)
                for d in self.demands
                if d.component == n
            )

        if not labels:
            return dict.fromkeys(names, (1.0, ""))
        best = max(labels, key=worst)
        return {
            name: (table[best].max_throughput_hz, best) for name, table in zip(names, tables, strict=True)
        }

    def size(self, demand: Load) -> float:
        """Load of one stream."""
        return demand.rate_hz / self._scale[demand.component][0]

    def _limit(self, demand: Load) -> float:
        scale, label = self._scale[demand.component]
        if label is None:
            return self.catalog.capacity_hz(self.kind.model, demand.component, demand.slo_ms)
        table = {c.label: c for c in self.catalog.configurations(self.kind.model, demand.component)}
        return self.catalog.cap(table[label], demand.slo_ms) / scale if label in table else 0.0

    def most(self, demand: Load) -> int:
        """Most streams of one demand on one worker."""
        size, limit = self.size(demand), self.limits[id(demand)]
        if limit <= 0:
            return 0
        return demand.streams if size <= 0 else min(demand.streams, floor(limit / size * (1 + SLACK)))

    def alone(self, demand: Load) -> float:
        """Workers that one demand needs by itself; infinite when one stream is already too much."""
        most = self.most(demand)
        return inf if most == 0 else ceil(demand.streams / most)

    def least(self) -> float:
        """A lower bound on the workers of any packing."""
        if any(self.most(d) == 0 for d in self.demands):
            return inf
        total = sum(d.streams * self.size(d) / self.limits[id(d)] for d in self.demands)
        return max(1, ceil(total - 1e-6)) if self.demands else 0

    def fewest(self) -> float:
        """Workers that the chosen method needs at least; infinite when none suffices."""
        if not self.demands:
            return 0
        if self.least() == inf:
            return inf
        if self.catalog.options.packing == "isolated":
            return len(self.compacted())
        return min(len(self._filled(1.0) or []), len(self.compacted()))

    def pack(self, workers: int) -> list[Bin] | None:
        """The streams on at most `workers` workers, or None."""
        if not self.demands:
            return []
        if self.least() > workers:
            return None
        found = None if self.catalog.options.packing == "isolated" else self._pack_level(workers)
        return found or self._pack_isolated(workers)

    # --- the paper's: each class by itself, then merge what fits together

    def _pack_isolated(self, workers: int) -> list[Bin] | None:
        counts = [int(self.alone(d)) for d in self.demands]
        if sum(counts) > workers:
            merged = self.compacted()
            return merged if len(merged) <= workers else None
        for _ in range(
            workers - sum(counts)
        ):  # what is left goes where a worker carries most, to lower latency
            shares = [
                d.streams * self.size(d) / n if n < d.streams else -1.0
                for d, n in zip(self.demands, counts, strict=True)
            ]
            widest = max(range(len(counts)), key=shares.__getitem__)
            if shares[widest] < 0:
                break
            counts[widest] += 1
        return [
            [replace(d, streams=k)]
            for d, n in zip(self.demands, counts, strict=True)
            for k in balanced(d.streams, n)
        ]

    def compacted(self) -> list[Bin]:
        """Isolated packing with full workers first, then greedy merging of low-load workers into high-headroom ones."""
        full: list[Bin] = []
        loose: list[Bin] = []
        for d in self.demands:
            most = self.most(d)
            full += [[replace(d, streams=most)]] * (d.streams // most)
            if d.streams % most:
                loose.append([replace(d, streams=d.streams % most)])
        loose += [content for content in full if self._headroom(content) > 0]
        full = [content for content in full if self._headroom(content) <= 0]
        loose.sort(key=self._used)
        kept: list[Bin] = []
        while loose:
            low = loose.pop(0)
            for target in sorted(loose, key=self._headroom, reverse=True):
                if self._fits([*target, *low]):
                    loose.remove(target)
                    loose.append([*target, *low])
                    loose.sort(key=self._used)
                    break
            else:
                kept.append(low)
        return full + kept

    def _used(self, content: Bin) -> float:
        return sum(load.streams * self.size(load) for load in content)

    def _cap(self, content: Bin) -> float:
        return min(self._limit(load) for load in content)

    def _headroom(self, content: Bin) -> float:
        return self._cap(content) - self._used(content)

    def _fits(self, content: Bin) -> bool:
        return self._used(content) <= self._cap(content) * (1 + SLACK)

    # --- ours: fill workers with classes in order of their limits up to one common level

    def pack_towards(self, target: Callable[[Load], float], workers: int) -> list[Bin] | None:
        """Level packing towards a load per worker for every demand, never beyond its limit; None when it does not fit.

        All targets are scaled by one factor, the least that fits. Demands with low targets share workers among
        themselves first. No worker is left over while another holds more than one stream.
        """
        if not self.demands:
            return []
        caps = dict(self.limits)
        goals = {id(d): target(d) / self._scale[d.component][0] for d in self.demands}

        def filled(factor: float) -> list[Bin] | None:
            self.limits = {key: min(caps[key], factor * goals[key]) for key in caps}
            return self._filled(1.0, workers, caps)

        try:
            low, high = 0.2, 8.0
            best = filled(high)
            for _ in range(14 if best is not None else 0):
                factor = (low + high) / 2
                found = filled(factor)
                if found is not None:
                    best, high = found, factor
                else:
                    low = factor
            best = best or filled(inf)
        finally:
            self.limits = caps
        if best is None:
            return None
        wanted = {(d.task, d.component): min(caps[id(d)], goals[id(d)]) for d in self.demands}
        return spread(
            best,
            workers,
            lambda content: self._used(content) / min(wanted[x.task, x.component] for x in content),
        )

    def _pack_level(self, workers: int) -> list[Bin] | None:
        best = self._filled(1.0)
        if best is None or len(best) > workers:
            return None
        low, high = 0.0, 1.0
        for _ in range(12):  # the lowest level that still fits spreads the load evenly
            level = (low + high) / 2
            found = self._filled(level, workers)
            if found is not None:
                best, high = found, level
            else:
                low = level
        return best

    def _filled(
        self, level: float, workers: float = inf, caps: dict[int, float] | None = None
    ) -> list[Bin] | None:
        """Workers filled one after the other to `level` of their limit; the gap at the end takes any later class.

        Classes with a low limit come first, so that few of them force theirs on classes with a high one.
        """
        order = sorted(self.demands, key=lambda d: (self.limits[id(d)], -self.size(d)))
        left = [d.streams for d in order]
        sizes, limits = [self.size(d) for d in order], [self.limits[id(d)] for d in order]
        bins: list[Bin] = []
        while any(left):
            if len(bins) >= workers:
                return None
            content: Bin = []
            first = next(i for i, streams in enumerate(left) if streams)
            limit, used = limits[first], 0.0
            for i in range(first, len(order)):
                room = level * limit - used
                if content and room <= 0:
                    break
                size = sizes[i]
                take = left[i] if size <= 0 else min(left[i], floor(room / size * (1 + SLACK)))
                if not content and take < 1 and size <= (caps or self.limits)[id(order[i])] * (1 + SLACK):
                    take = 1  # a worker holds at least one stream, however low the level
                if take >= 1:
                    content.append(replace(order[i], streams=take))
                    left[i] -= take
                    used += take * size
            if not content:
                return None
            bins.append(content)
        return bins
