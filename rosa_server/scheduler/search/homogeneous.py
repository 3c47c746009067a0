"""Homogeneous task scheduling (ROSA 3.4.2): binary search over the shared action rate, an ILP at each candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from rosa_server.scheduler.bisection import bisect
from rosa_server.scheduler.placement.packing import ServerKind
from rosa_server.scheduler.placement.pool import Pool
from rosa_server.scheduler.placement.servers import PlacedServer, latencies_ms, loop_rate_hz
from rosa_server.scheduler.problem import Need, TaskClass
from rosa_server.scheduler.profiles.catalog import Assessment, Catalog, Load
from rosa_server.scheduler.search.fairness import Candidate

SERVER_COST_MS = (
    1.0  # tie-breaking: a server must lower the sum of stream latencies by more than this to be used
)
RATE_STEPS = 12  # binary search down to f_max / 4096
ILP_SECONDS = 5.0


@dataclass(frozen=True)
class ServerConfiguration:
    """p of P(f): one server with the model of `need`, its best batch, and `streams` robots."""

    need: Need
    streams: int
    load: Load
    state: Assessment

    @property
    def cost_ms(self) -> float:
        """Tie-breaking cost: latency over its streams, by its share of a round."""
        return self.streams * self.need.calls_per_action * self.state.loop_ms[self.need.component]


def enumerate_configurations(
    catalog: Catalog, cls: TaskClass, rate_hz: float, servers: int
) -> list[ServerConfiguration] | None:
    """P(f), step 2.1: feasible per-server configurations, or None when the servers cannot suffice.

    Only the stream counts of even splits over 1, 2, ... servers are kept: an even split is feasible whenever any split
    is, and has the least latency. Per model and count, only the batch with the least latency is kept.
    """
    found: list[ServerConfiguration] = []
    lowest = 0
    for need in cls.goals:
        capacity = catalog.capacity_hz(need.model, need.component, need.slo_ms)
        highest = min(cls.robots, floor(capacity / need.rate_hz(rate_hz) * (1 + 1e-9)))
        if highest < 1:
            return None
        fewest = ceil(cls.robots / highest)
        lowest += fewest
        splits = {cls.robots // n for n in range(fewest, servers + 1)} | {
            ceil(cls.robots / n) for n in range(fewest, servers + 1)
        }
        for streams in sorted(splits):
            if 1 <= streams <= highest:
                load = Load(cls.name, need.component, streams, need.rate_hz(rate_hz), need.slo_ms)
                state = catalog.assess(need.model, [load])
                if state is not None:
                    found.append(ServerConfiguration(need, streams, load, state))
    return found if lowest <= servers else None


def pack_ilp(configurations: Sequence[ServerConfiguration], cls: TaskClass, servers: int) -> list[int] | None:
    """Step 2.2, equation (3): how many servers take each configuration; None when the streams cannot be covered."""
    # Imported here: it brings pandas along, half a second that plans of several tasks do not need.
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    counts = [
        model.new_int_var(0, min(servers, cls.robots // p.streams), f"y{i}")
        for i, p in enumerate(configurations)
    ]
    model.add(sum(counts) <= servers)
    for need in cls.goals:
        covered = [y * p.streams for y, p in zip(counts, configurations, strict=True) if p.need is need]
        model.add(sum(covered) == cls.robots)
    costs = [round(1000 * (p.cost_ms + SERVER_COST_MS)) for p in configurations]
    model.minimize(sum(y * cost for y, cost in zip(counts, costs, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = ILP_SECONDS
    solver.parameters.relative_gap_limit = 1e-4
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return [int(solver.value(y)) for y in counts]


def place_class(catalog: Catalog, cls: TaskClass, rate_hz: float, servers: int) -> list[PlacedServer] | None:
    """Goal-coupled servers that carry `rate_hz` within the SLOs and equation (4), or None."""
    configurations = enumerate_configurations(catalog, cls, rate_hz, servers)
    if configurations is None:
        return None
    counts = pack_ilp(configurations, cls, servers)
    if counts is None:
        return None
    placed = [
        PlacedServer(ServerKind(p.need.model, (p.need.component,)), (p.load,), p.state)
        for p, count in zip(configurations, counts, strict=True)
        for _ in range(count)
    ]
    return placed if rate_hz <= loop_rate_hz(cls, latencies_ms(placed)) else None


def solve_homogeneous(pool: Pool) -> Candidate | None:
    """The highest action rate that all robots of the only class share; None when no rate that may be is feasible."""
    (cls,) = pool.problem.classes

    def placed_at(rate_hz: float) -> list[PlacedServer] | None:
        return place_class(pool.catalog, cls, rate_hz, pool.servers)

    lowest: list[PlacedServer] | None = None
    if cls.min_rate_hz > 0:
        lowest = placed_at(cls.min_rate_hz)
        if lowest is None:
            return None
    rate_hz, placed = bisect(placed_at, cls.min_rate_hz, pool.fastest_hz[cls.name], lowest, RATE_STEPS)
    return None if placed is None else Candidate({cls.name: rate_hz}, placed)
