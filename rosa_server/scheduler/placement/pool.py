"""The servers that are left for goal-coupled components, and a placement on them at given action rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rosa_server.scheduler.placement.packing import Packer, ServerKind
from rosa_server.scheduler.placement.servers import (
    PlacedServer,
    demands_of,
    fastest_rate_hz,
    is_goal_kind,
    kinds_of,
    latencies_ms,
    loop_rate_hz,
    placed_servers,
)
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog


@dataclass(frozen=True)
class Pool:
    """The question that every search answers: how fast may the robots of `problem` act when `servers` servers are left
    for their goal-coupled components?
    """

    catalog: Catalog
    problem: Problem
    servers: int

    @cached_property
    def kinds(self) -> tuple[ServerKind, ...]:
        """The kinds of server that goal-coupled components need."""
        return goal_kinds(self.catalog, self.problem)

    @cached_property
    def fastest_hz(self) -> dict[str, float]:
        """Task -> the action rate that it would have with idle servers of its own."""
        return {cls.name: fastest_rate_hz(self.catalog, cls) for cls in self.problem.classes}

    def packed(self, packing: str) -> Pool:
        """The same servers, with another packing."""
        return replace(self, catalog=self.catalog.packed(packing))


def goal_kinds(catalog: Catalog, problem: Problem) -> tuple[ServerKind, ...]:
    """The kinds of server that answer a goal-coupled component."""
    every = kinds_of(problem, catalog.options.share_components)
    return tuple(kind for kind in every if is_goal_kind(problem, kind))


def place_goals(
    pool: Pool, rates_hz: Mapping[str, float], use_all: bool = False
) -> list[PlacedServer] | None:
    """Servers of the goal-coupled kinds that carry these rates within every SLO and equation (4), or None.

    Starts with the fewest servers of each kind; spare ones go, a few at a time, to the kind that brings the slowest
    classes nearest to their rate. With `use_all` they go on lowering latency after every class has its rate.
    """
    packers = [Packer(pool.catalog, kind, demands_of(pool.problem, kind, rates_hz)) for kind in pool.kinds]
    if sum(packer.min_servers() for packer in packers) > pool.servers:
        return None
    counts = [packer.fewest() for packer in packers]
    if sum(counts) > pool.servers:
        return None
    sizes = [int(count) for count in counts]
    groups = [_packed(packer, size) for packer, size in zip(packers, sizes, strict=True)]
    if any(group is None for group in groups):
        return None
    placed: list[list[PlacedServer]] = [group for group in groups if group is not None]
    spare = pool.servers - sum(sizes)
    while True:
        if _shortfall_s(pool.problem, placed, rates_hz) <= 0 and not use_all:
            return [server for group in placed for server in group]
        if spare <= 0:
            break
        step = max(1, spare // 8)
        best, best_cost = None, _cost_s(pool.problem, placed, rates_hz)
        for index, packer in enumerate(packers):
            wider = _packed(packer, sizes[index] + step)
            if wider is None:
                continue
            cost = _cost_s(pool.problem, [*placed[:index], wider, *placed[index + 1 :]], rates_hz)
            if cost < best_cost - 1e-9 * step:
                best, best_cost = (index, wider), cost
        if best is None:
            break
        placed[best[0]] = best[1]
        sizes[best[0]] += step
        spare -= step
    if _shortfall_s(pool.problem, placed, rates_hz) > 0:
        return None
    return [server for group in placed for server in group]


def _packed(packer: Packer, servers: int) -> list[PlacedServer] | None:
    packed = packer.pack(servers)
    return None if packed is None else placed_servers(packer.catalog, packer.kind, packed)


def _shortfall_s(
    problem: Problem, groups: Sequence[Sequence[PlacedServer]], rates_hz: Mapping[str, float]
) -> float:
    """How much too long rounds are for these rates, summed over all robots; 0 where equation (4) holds."""
    latency = latencies_ms([server for group in groups for server in group])
    shortfall = 0.0
    for cls in problem.classes:
        rate = rates_hz[cls.name]
        if rate > 0:
            shortfall += cls.robots * max(0.0, 1 / loop_rate_hz(cls, latency) - 1 / rate * (1 + 1e-9))
    return shortfall


def _cost_s(
    problem: Problem, groups: Sequence[Sequence[PlacedServer]], rates_hz: Mapping[str, float]
) -> float:
    """What spare servers should lower: the shortfall first, then latency (the paper's tie-breaking)."""
    latency = latencies_ms([server for group in groups for server in group])
    rounds = sum(cls.robots / loop_rate_hz(cls, latency) for cls in problem.classes)
    return 1000 * _shortfall_s(problem, groups, rates_hz) + rounds
