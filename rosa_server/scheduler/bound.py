"""An upper bound on equation (1), and rates near its optimum: a linear relaxation with a whole number of
servers per kind.

What is relaxed: streams may be split over servers, servers of a kind share their load evenly, and the closed
loop of equation (4) holds for the fleet in sum, not for every class. By Little's law a kind with load x per
server holds x * l(x) requests; the lower convex hull of that over all batchings is a set of tangents, so
waiting is linear from below:

    sum_c K_c t_c f_c + sum_k (requests held by kind k) <= sum_c K_c .

Every schedule satisfies these constraints (the hull is sampled densely; see HULL_MARGIN), so no schedule
exceeds the bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]

from rosa_server.scheduler.catalog import Catalog
from rosa_server.scheduler.packing import Kind
from rosa_server.scheduler.placement import fastest_rate_hz, hosts
from rosa_server.scheduler.problem import Problem

HULL_SAMPLES = 400
HULL_MARGIN = 0.998  # the hull may lie above the curve between two samples by less than this
SOLVER_MS = 5000


@dataclass(frozen=True)
class Relaxation:
    """The relaxation's optimum: never below that of any schedule."""

    objective: float  # sum of v_c K_c f_c
    rates_hz: dict[str, float]
    servers: dict[Kind, int]


def relax(
    catalog: Catalog,
    problem: Problem,
    kinds: Sequence[Kind],
    servers: int,
    floors_hz: Mapping[str, float],
    tops_hz: Mapping[str, float] | None = None,
) -> Relaxation | None:
    """Maximise equation (1) over the relaxation, or None when even that is infeasible.

    With `tops_hz`, upper limits on class rates beside their fastest, the answer is a guide and no bound.
    """
    solver = pywraplp.Solver.CreateSolver("SCIP")
    solver.SetTimeLimit(SOLVER_MS)
    rates = {}
    for cls in problem.classes:
        top, floor = fastest_rate_hz(catalog, cls), floors_hz.get(cls.name, 0.0)
        if floor > top * (1 + 1e-9):
            return None
        top = max(floor, min(top, (tops_hz or {}).get(cls.name, top)))
        rates[cls.name] = solver.NumVar(min(floor, top), top, cls.name)
    counts = {kind: solver.IntVar(1, max(1, servers), str(index)) for index, kind in enumerate(kinds)}
    solver.Add(solver.Sum(list(counts.values())) <= servers)
    held = []
    for kind, count in counts.items():
        used, flow = [], []
        for cls in problem.classes:
            for need in cls.needs:
                if not hosts(kind, need):
                    continue
                capacity = catalog.capacity_hz(kind.model, need.component, need.slo_ms)
                if capacity <= 0:
                    return None
                if need.is_goal:
                    used.append(cls.robots * need.calls_per_action / capacity * rates[cls.name])
                    flow.append((need.component, cls.robots * need.calls_per_action * rates[cls.name]))
                else:
                    used.append(cls.robots * need.freq_hz / capacity)
        solver.Add(solver.Sum(used) <= count)
        for component in {name for name, _ in flow}:
            total = solver.Sum([rate for name, rate in flow if name == component])
            waiting = solver.NumVar(0, solver.infinity(), f"held {component}")
            held.append(waiting)
            for slope, offset in tangents(catalog, kind.model, component):
                solver.Add(waiting >= slope * total + offset * count)
    acting = [cls.robots * cls.action_s * rates[cls.name] for cls in problem.classes]
    solver.Add(solver.Sum(acting) + solver.Sum(held) <= problem.robots)
    solver.Maximize(solver.Sum([cls.weight * cls.robots * rates[cls.name] for cls in problem.classes]))
    if solver.Solve() not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
        return None
    return Relaxation(
        solver.Objective().BestBound(),
        {name: var.solution_value() for name, var in rates.items()},
        {kind: round(count.solution_value()) for kind, count in counts.items()},
    )


def shared_latency_ms(catalog: Catalog, problem: Problem, found: Relaxation) -> dict[str, float]:
    """Component -> loop latency when its goal-coupled load is spread evenly over the relaxation's servers."""
    latency: dict[str, float] = {}
    for kind, count in found.servers.items():
        for component in kind.components:
            total = sum(
                cls.robots * need.rate_hz(found.rates_hz[cls.name])
                for cls in problem.classes
                for need in cls.goals
                if hosts(kind, need) and need.component == component
            )
            choices = catalog.configurations(kind.model, component)
            worst = max(c.latency[-1].rate_hz for c in choices)
            rate = min(total / count, worst)
            latency[component] = min(c.latency_ms(catalog.options.loop_statistic, rate) for c in choices)
    return latency


def tangents(catalog: Catalog, model: str, component: str) -> list[tuple[float, float]]:
    """(slope, offset) of lines below requests held = rate * latency(rate) of one worker, for its best batching."""
    choices = catalog.configurations(model, component)
    statistic, network_s = catalog.options.loop_statistic, catalog.options.network_ms / 1000
    top = max(c.latency[-1].rate_hz for c in choices)
    points = [(0.0, 0.0)]
    for i in range(1, HULL_SAMPLES + 1):
        rate = top * i / HULL_SAMPLES
        latency_s = min(c.latency_ms(statistic, rate) for c in choices) / 1000 + network_s
        points.append((rate, rate * latency_s * HULL_MARGIN))
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) >= 2 and _turns_down(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    lines = []
    for (x0, y0), (x1, y1) in itertools.pairwise(hull):
        slope = (y1 - y0) / (x1 - x0)
        lines.append((slope, y0 - slope * x0))
    return _thinned(lines)


def _turns_down(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])


def _thinned(lines: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most about 30 of the lines: leaving lines out only loosens the bound."""
    step = max(1, len(lines) // 30)
    return lines[::step] + lines[-1:]
