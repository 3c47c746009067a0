"""Putting request streams on servers of one kind: isolated packing with compaction (ROSA 3.4.3), and level packing
(ours).

A kind of server hosts one model for one component (or, as an option, for several components). Streams of one demand are
identical, so what a server holds is a list of `Load`. Sizes and limits are request rates; for a server of several
components they are utilisations. A server is feasible when its sizes add up to no more than the lowest limit among its
loads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor, inf

from rosa_server.scheduler.bisection import bisect
from rosa_server.scheduler.placement.spreading import ServerLoads, balanced, spread
from rosa_server.scheduler.problem import Need
from rosa_server.scheduler.profiles.catalog import Catalog, Load

__all__ = ["SLACK", "Packer", "ServerKind", "ServerLoads", "balanced"]

SLACK = 1e-9
LEVEL_STEPS = 12
FACTOR_RANGE, FACTOR_STEPS = (0.2, 8.0), 14  # of the target loads


@dataclass(frozen=True)
class ServerKind:
    """What a server can be: a model, for the components it answers."""

    model: str
    components: tuple[str, ...]

    def serves(self, need: Need) -> bool:
        return self.model == need.model and need.component in self.components


class Packer:
    """Packs the demands of one kind; `demands` are `Load`s with all streams of a stream class."""

    def __init__(self, catalog: Catalog, kind: ServerKind, demands: Sequence[Load]) -> None:
        self.catalog, self.kind = catalog, kind
        self.demands = [demand for demand in demands if demand.streams > 0]
        self._scale = self._scales()
        self._limits = {id(d): self._limit(d) for d in self.demands}

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

    def max_streams(self, demand: Load) -> int:
        """Most streams of one demand on one server."""
        size, limit = self.size(demand), self._limits[id(demand)]
        if limit <= 0:
            return 0
        return demand.streams if size <= 0 else min(demand.streams, floor(limit / size * (1 + SLACK)))

    def alone(self, demand: Load) -> float:
        """Servers that one demand needs by itself; infinite when one stream is already too much."""
        highest = self.max_streams(demand)
        return inf if highest == 0 else ceil(demand.streams / highest)

    @cached_property
    def _together(self) -> bool:
        """Whether all demands fit on one server because they share what is seen there."""
        return len(self.demands) > 1 and self.catalog.together(self.kind.model, self.demands)

    def min_servers(self) -> float:
        """A lower bound on the servers of any packing."""
        if self._together:
            return 1
        if any(self.max_streams(d) == 0 for d in self.demands):
            return inf
        total = sum(d.streams * self.size(d) / self._limits[id(d)] for d in self.demands)
        return max(1, ceil(total - 1e-6)) if self.demands else 0

    def fewest(self) -> float:
        """Servers that the chosen method needs at least; infinite when no number suffices."""
        if not self.demands:
            return 0
        if self._together:
            return 1
        if self.min_servers() == inf:
            return inf
        if self.catalog.options.packing == "isolated":
            return len(self.compacted())
        return min(len(self._filled(1.0, self._limits) or []), len(self.compacted()))

    def pack(self, servers: int) -> list[ServerLoads] | None:
        """The streams on at most `servers` servers, or None."""
        if not self.demands:
            return []
        if self.min_servers() > servers:
            return None
        if servers == 1 and self._together:
            return [list(self.demands)]
        found = None if self.catalog.options.packing == "isolated" else self._pack_level(servers)
        return found or self._pack_isolated(servers)

    # --- the paper's: each class by itself, then merge what fits together

    def _pack_isolated(self, servers: int) -> list[ServerLoads] | None:
        counts = [int(self.alone(d)) for d in self.demands]
        if sum(counts) > servers:
            merged = self.compacted()
            return merged if len(merged) <= servers else None
        for _ in range(servers - sum(counts)):  # a spare server goes to the fullest ones, to lower latency
            shares = [
                d.streams * self.size(d) / n if n < d.streams else -1.0
                for d, n in zip(self.demands, counts, strict=True)
            ]
            fullest = max(range(len(counts)), key=shares.__getitem__)
            if shares[fullest] < 0:
                break
            counts[fullest] += 1
        return [
            [replace(d, streams=k)]
            for d, n in zip(self.demands, counts, strict=True)
            for k in balanced(d.streams, n)
        ]

    def compacted(self) -> list[ServerLoads]:
        """Isolated packing with full servers first, then greedy merging of low-load servers into high-headroom ones."""
        full: list[ServerLoads] = []
        loose: list[ServerLoads] = []
        for d in self.demands:
            highest = self.max_streams(d)
            full += [[replace(d, streams=highest)]] * (d.streams // highest)
            if d.streams % highest:
                loose.append([replace(d, streams=d.streams % highest)])
        loose += [loads for loads in full if self._headroom(loads) > 0]
        full = [loads for loads in full if self._headroom(loads) <= 0]
        loose.sort(key=self._used)
        kept: list[ServerLoads] = []
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

    def _used(self, loads: ServerLoads) -> float:
        return sum(load.streams * self.size(load) for load in loads)

    def _cap(self, loads: ServerLoads) -> float:
        return min(self._limit(load) for load in loads)

    def _headroom(self, loads: ServerLoads) -> float:
        return self._cap(loads) - self._used(loads)

    def _fits(self, loads: ServerLoads) -> bool:
        return self._used(loads) <= self._cap(loads) * (1 + SLACK)

    # --- ours: fill servers with classes in order of their limits up to one common level

    def pack_towards(self, target: Callable[[Load], float], servers: int) -> list[ServerLoads] | None:
        """Level packing towards a load per server for every demand, never beyond its limit; None when it does not fit.

        All targets are scaled by one factor, the least that fits. Demands with low targets share servers among
        themselves first. No server stays empty while another holds more than one stream.
        """
        if not self.demands:
            return []
        goals = {id(d): target(d) / self._scale[d.component][0] for d in self.demands}

        def filled(factor: float) -> list[ServerLoads] | None:
            limits = {key: min(limit, factor * goals[key]) for key, limit in self._limits.items()}
            return self._filled(1.0, limits, servers)

        low, high = FACTOR_RANGE
        packed = filled(high)
        if packed is not None:
            _, packed = bisect(filled, high, low, packed, FACTOR_STEPS)
        else:
            packed = filled(inf)
        if packed is None:
            return None
        wanted = {d.stream_class: min(self._limits[id(d)], goals[id(d)]) for d in self.demands}
        return spread(
            packed,
            servers,
            lambda loads: self._used(loads) / min(wanted[load.stream_class] for load in loads),
        )

    def _pack_level(self, servers: int) -> list[ServerLoads] | None:
        packed = self._filled(1.0, self._limits)
        if packed is None or len(packed) > servers:
            return None
        # The lowest level that still fits spreads the load evenly.
        return bisect(
            lambda level: self._filled(level, self._limits, servers), 1.0, 0.0, packed, LEVEL_STEPS
        )[1]

    def _filled(
        self, level: float, limits: Mapping[int, float], servers: float = inf
    ) -> list[ServerLoads] | None:
        """Servers filled one after the other to `level` of `limits`; the gap at the end takes any later class.

        Classes with a low limit come first, so that few of them force theirs on classes with a high one. `limits` are
        those of the SLOs or lower ones, by the demand's id.
        """
        order = sorted(self.demands, key=lambda d: (limits[id(d)], -self.size(d)))
        left = [d.streams for d in order]
        sizes, ordered = [self.size(d) for d in order], [limits[id(d)] for d in order]
        packed: list[ServerLoads] = []
        while any(left):
            if len(packed) >= servers:
                return None
            loads: ServerLoads = []
            first = next(i for i, streams in enumerate(left) if streams)
            limit, used = ordered[first], 0.0
            for i in range(first, len(order)):
                room = level * limit - used
                if loads and room <= 0:
                    break
                size = sizes[i]
                take = left[i] if size <= 0 else min(left[i], floor(room / size * (1 + SLACK)))
                if not loads and take < 1 and size <= self._limits[id(order[i])] * (1 + SLACK):
                    take = 1  # a server holds at least one stream, however low the level
                if take >= 1:
                    loads.append(replace(order[i], streams=take))
                    left[i] -= take
                    used += take * size
            if not loads:
                return None
            packed.append(loads)
        return packed
