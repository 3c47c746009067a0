"""Fixed partitions of the servers under ROSA's rate control: Figure 11 (servers needed) and Figure 12 (throughput)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks.paper.published import FIGURE_12, LIBRARY, ORDER, TABLE_3, Row, workload
from rosa_server.scheduler.bisection import furthest
from rosa_server.scheduler.placement.packing import Packer, ServerKind
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.placement.servers import (
    PlacedServer,
    demands_of,
    kinds_of,
    latencies_ms,
    loop_rate_hz,
    placed_servers,
)
from rosa_server.scheduler.placement.to_schedule import build_schedule
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.solve import solve
from rosa_sim.fleet.baselines import WEIGHTS, partition_counts

MAX_SERVERS = 400
STATIC = ((2, 2, 2, 2), (1, 3, 1, 3))  # Table 3: equal and weighted partition of P4


def figure_11_rows() -> list[Row]:
    """Servers that a partition with System 1 in batches of one needs for the action rate that ROSA has on eight."""
    rows: list[Row] = []
    for name in ("p1", "p2", "p3", "p4"):
        for robots in TABLE_3:
            problem = workload(name, robots)
            rate_hz = solve(problem, LIBRARY, Options.paper()).action_throughput_hz / robots
            row: Row = {
                "Figure 11, servers needed": f"{name.upper()}, {robots} robots",
                "ROSA": problem.servers,
            }
            for baseline, weight in WEIGHTS.items():
                needed = servers_for(problem, rate_hz, weight)
                row[baseline] = needed
                row[f"{baseline}, times ROSA's"] = needed / problem.servers
            rows.append(row)
    return rows


def servers_for(problem: Problem, rate_hz: float, weight: Callable[[ServerKind], float]) -> int:
    """Fewest servers, split by `weight`, that carry `rate_hz` of every robot within all SLOs and equation (4)."""
    catalog = Catalog(problem, LIBRARY, Options.paper(batch_sizes=(1,)))
    kinds = kinds_of(problem, share_components=False)
    for servers in range(len(kinds), MAX_SERVERS + 1):
        if carries(catalog, problem, rate_hz, partition_counts(kinds, servers, weight)):
            return servers
    raise ValueError(f"{MAX_SERVERS} servers do not carry {rate_hz:g} Hz of {problem.robots} robots")


def figure_12_rows() -> list[Row]:
    """Throughput of Table 3's partitions with ROSA's batching and rate control on P4; 0 = infeasible."""
    rows: list[Row] = []
    for robots in TABLE_3:
        ours = solve(workload("p4", robots), LIBRARY, Options.paper()).action_throughput_hz
        equal, weighted = (static_hz(robots, shares) for shares in STATIC)
        rows.append(
            {
                "Figure 12, actions/s": f"P4, {robots} robots",
                "ROSA": ours,
                "2:2:2:2": equal,
                "1:3:1:3": weighted,
                "ROSA over the best static": ours / max(equal, weighted),
                "paper": FIGURE_12[robots],
            }
        )
    return rows


def static_hz(robots: int, shares: Sequence[int]) -> float:
    """Actions/s of P4 under a fixed allocation, by bisection over the shared rate."""
    problem, catalog, counts = _static(robots, shares)
    max_hz = 1 / problem.classes[0].action_s
    return robots * furthest(lambda rate_hz: carries(catalog, problem, rate_hz, counts), 0.0, max_hz, 14)


def static_schedule(robots: int, shares: Sequence[int]) -> Schedule | None:
    """The schedule behind `static_hz`; none where the allocation carries no rate at all."""
    problem, catalog, counts = _static(robots, shares)
    rate_hz = static_hz(robots, shares) / robots
    servers = placed(catalog, problem, rate_hz, counts) if rate_hz else None
    if servers is None:
        return None
    name = f"static {':'.join(map(str, shares))}"
    schedule = build_schedule(catalog, problem, servers, {problem.classes[0].name: rate_hz}, name)
    return replace(schedule, options=Options.paper().changes())


def _static(robots: int, shares: Sequence[int]) -> tuple[Problem, Catalog, dict[ServerKind, int]]:
    problem = workload("p4", robots)
    by_component = dict(zip(ORDER, shares, strict=True))
    counts = {kind: by_component[kind.components[0]] for kind in kinds_of(problem, share_components=False)}
    return problem, Catalog(problem, LIBRARY, Options.paper()), counts


def carries(catalog: Catalog, problem: Problem, rate_hz: float, counts: dict[ServerKind, int]) -> bool:
    """Whether a task's robots can all act at `rate_hz` with this number of servers of each kind."""
    servers = placed(catalog, problem, rate_hz, counts)
    cls = problem.classes[0]
    return servers is not None and rate_hz <= loop_rate_hz(cls, latencies_ms(servers)) * (1 + 1e-9)


def placed(
    catalog: Catalog, problem: Problem, rate_hz: float, counts: dict[ServerKind, int]
) -> list[PlacedServer] | None:
    """Servers of the first task's robots at `rate_hz`, all within their SLOs; None where they cannot be."""
    servers: list[PlacedServer] = []
    for kind, count in counts.items():
        demands = demands_of(problem, kind, {problem.classes[0].name: rate_hz})
        packed = Packer(catalog, kind, demands).pack(count)
        found = None if packed is None else placed_servers(catalog, kind, packed)
        if found is None:
            return None
        servers += found
    return servers
