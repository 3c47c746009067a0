"""An upper bound on equation (1), and the loads that reach it: a linear program over single-class server shares.

A server at load x holds x * l(x) requests (Little's law). A class that puts a share n of a server at load x
sends n * x requests per second and has n * x * l(x) of its robots waiting. For every class c, with its shares
n over all loads x that its SLO allows:

    requests:  sum_x n x = K_c r_c f_c        for every goal-coupled kind (r: calls per action)
    robots:    K_c t_c f_c + sum n x l(x) <= K_c        (equation (4), times K_c f_c)
    servers:   sum over classes, kinds and loads of n <= servers

A server that several classes share enters with n_c = the class's part of its load, at one x: every schedule is a
solution, so no schedule exceeds the optimum. Two things are relaxed: that streams are whole, and above
WHOLE_SERVERS_UP_TO that servers are. Of all loads x the program sees a few points, chosen so that a server never holds
less than the program says (`levels`); so the bound is strict, up to the tolerance of the solver (TOLERANCE, relative).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, inf
from typing import Any

from ortools.linear_solver import pywraplp

from rosa_server.scheduler.placement.obligations import obligation_kinds
from rosa_server.scheduler.placement.packing import SLACK, ServerKind
from rosa_server.scheduler.placement.pool import Pool
from rosa_server.scheduler.placement.servers import demands_of
from rosa_server.scheduler.problem import Need, Problem, StreamClass
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.profile import Configuration

PARTS = 8  # tangents per piece of a latency curve: the points lie at most 0.1 % below the curve
TOLERANCE = 1e-9  # of the linear solver; packing and equation (4) allow themselves SLACK, which is counted in
WHOLE_SERVERS_UP_TO = 32  # above, a fraction of a server no longer matters and integers only cost time
SOLVER_MS = 3000
LIFT = 0.01  # of a class's fastest rate: tells which classes could be faster than the common share
Levels = list[tuple[float, float]]  # (load in Hz, requests held), by rising load


@dataclass(frozen=True)
class Relaxation:
    """The optimum of the linear program."""

    objective: float  # sum of v_c K_c f_c: never below that of any schedule
    rates_hz: dict[str, float]
    servers: dict[ServerKind, float]
    levels_hz: dict[StreamClass, float]  # load of the servers that the class uses, on average


def upper_bound(problem: Problem, library: ProfileLibrary, options: Options) -> float | None:
    """What equation (1) cannot exceed on these servers with any schedule; None when nothing is feasible."""
    pool = largest_pool(Catalog(problem, library, options), problem)
    found = None if pool is None else relax(pool, problem.min_rates_hz)
    return None if found is None else found.objective


def largest_pool(catalog: Catalog, problem: Problem) -> Pool | None:
    """What obligations and standby leave at most; None when an SLO of an obligation cannot be kept."""
    taken = sum(min_servers(catalog, problem, kind) for kind in obligation_kinds(catalog, problem))
    if taken == inf:
        return None
    return Pool(catalog, problem, problem.servers - catalog.options.standby - int(taken))


def min_servers(catalog: Catalog, problem: Problem, kind: ServerKind) -> float:
    """Servers that obligations of a kind need whatever the packing: by their load, and by whole streams of one rate.

    Infinite when an SLO cannot be kept at all.
    """
    load = 0.0
    identical: dict[tuple[str, float, float], int] = {}  # (component, rate, capacity) -> streams
    for demand in demands_of(problem, kind, {}):
        capacity = catalog.capacity_hz(kind.model, demand.component, demand.slo_ms) * (1 + SLACK)
        if capacity <= 0 or demand.rate_hz > capacity:
            return inf
        load += demand.streams * demand.rate_hz / capacity
        key = (demand.component, demand.rate_hz, capacity)
        identical[key] = identical.get(key, 0) + demand.streams
    whole = [ceil(n / floor(capacity / rate)) for (_, rate, capacity), n in identical.items() if rate > 0]
    return max(1, ceil(load * (1 - SLACK)), *whole)


def relax(
    pool: Pool,
    floors_hz: Mapping[str, float],
    fair: Collection[str] = (),
    ceilings_hz: Mapping[str, float] | None = None,
    at_least: float = 0.0,
) -> Relaxation | None:
    """Maximise equation (1) with rates from floors to ceilings, or None when even the relaxation is infeasible.

    With `fair`, the share of their fastest rates that these classes have in common is maximised instead; `objective` is
    that share. Classes that can have LIFT more than the others get it. Equation (1) stays at `at_least` or above.
    """
    catalog, problem, servers = pool.catalog, pool.problem, pool.servers
    whole = servers <= WHOLE_SERVERS_UP_TO
    solver = pywraplp.Solver.CreateSolver("SCIP" if whole else "GLOP")
    # With ceilings this is a proof, which must not mistake a timeout for infeasibility; without integers it ends anyway
    if whole and ceilings_hz is None:
        solver.SetTimeLimit(SOLVER_MS)
    tolerances = pywraplp.MPSolverParameters()
    tolerances.SetDoubleParam(tolerances.PRIMAL_TOLERANCE, TOLERANCE)
    tolerances.SetDoubleParam(tolerances.RELATIVE_MIP_GAP, 0.0)
    share = solver.NumVar(0, 1, "share")
    rates, waiting, lifts = {}, {}, []
    for cls in problem.classes:
        top, lowest = pool.fastest_hz[cls.name] * (1 + SLACK), floors_hz.get(cls.name, 0.0)
        top = min(top, (ceilings_hz or {}).get(cls.name, top))
        if lowest > top:
            return None
        rates[cls.name] = solver.NumVar(lowest, top, cls.name)
        waiting[cls.name] = cls.robots * cls.action_s * rates[cls.name]
        if cls.name in fair:
            lift = solver.NumVar(0, LIFT, "")
            lifts.append(lift)
            solver.Add(rates[cls.name] >= (share + lift) * top)
    counts = {}
    used_levels: dict[StreamClass, list[tuple[Any, float]]] = {}
    curves: dict[tuple[str, str, float], Levels] = {}
    for index, kind in enumerate(pool.kinds):
        count = (
            solver.IntVar(1, max(1, servers), str(index))
            if whole
            else solver.NumVar(1, max(1, servers), str(index))
        )
        counts[kind] = count
        used = []
        for cls in problem.classes:
            for need in cls.needs:
                if not kind.serves(need):
                    continue
                key = (need.model, need.component, need.slo_ms)
                if key not in curves:
                    curves[key] = levels(catalog, need)
                curve = curves[key]
                if not curve:
                    return None
                if not need.is_goal:
                    used.append(cls.robots * need.freq_hz / curve[-1][0])
                    continue
                shares = [solver.NumVar(0, solver.infinity(), "") for _ in curve]
                sent = [n * load for n, (load, _) in zip(shares, curve, strict=True)]
                solver.Add(solver.Sum(sent) == cls.robots * need.calls_per_action * rates[cls.name])
                waiting[cls.name] += solver.Sum(
                    [n * held for n, (_, held) in zip(shares, curve, strict=True)]
                )
                used += shares
                loads = [load for load, _ in curve]
                used_levels[StreamClass(cls.name, need.component)] = list(zip(shares, loads, strict=True))
        solver.Add(solver.Sum(used) <= count)
    solver.Add(solver.Sum(list(counts.values())) <= servers)
    for cls in problem.classes:
        solver.Add(waiting[cls.name] <= cls.robots * (1 + SLACK))
    gained = solver.Sum([cls.weight * cls.robots * rates[cls.name] for cls in problem.classes])
    if at_least > 0:
        solver.Add(gained >= at_least)
    solver.Maximize(share + LIFT * solver.Sum(lifts) if fair else gained)
    if solver.Solve(tolerances) not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
        return None
    if fair:
        value = share.solution_value()
    else:
        value = solver.Objective().BestBound() if whole else solver.Objective().Value()
    mean_levels = {}
    for stream_class, entries in used_levels.items():
        shares_sum = sum(n.solution_value() for n, _ in entries)
        load_sum = sum(n.solution_value() * load for n, load in entries)
        mean_levels[stream_class] = load_sum / shares_sum if shares_sum > 1e-9 else entries[0][1]
    return Relaxation(
        value,
        {name: var.solution_value() for name, var in rates.items()},
        {kind: count.solution_value() for kind, count in counts.items()},
        mean_levels,
    )


def levels(catalog: Catalog, need: Need) -> Levels:
    """Corners of a convex curve from (0, 0) that is nowhere above what one server holds at a load within the SLO.

    The least latency of all batchings that keep the SLO jumps where one of them meets its cap, so every batching
    has points of its own, up to its cap. Between two bends its latency is a line a + b x with b >= 0; what it holds,
    x (a + b x), bends upwards and lies above its tangents: a point is where the tangents of both ends of a part meet.
    """
    points: list[tuple[float, float]] = []
    for choice in catalog.configurations(need.model, need.component):
        cap = catalog.cap(choice, need.slo_ms)
        if cap <= 0:
            continue

        def latency_s(load: float, choice: Configuration = choice) -> float:
            return (
                choice.latency_ms(catalog.options.loop_statistic, load) + catalog.options.network_ms
            ) / 1000

        bends = [point.rate_hz for point in choice.latency if point.rate_hz < cap] + [cap]
        points.append((bends[0], bends[0] * latency_s(bends[0])))  # below, latency is flat: a straight line
        for start, end in pairwise(bends):
            slope = (latency_s(end) - latency_s(start)) / (end - start)
            half = (end - start) / (2 * PARTS)
            for part in range(PARTS):
                middle = start + (2 * part + 1) * half
                points.append((middle, middle * latency_s(middle) - slope * half**2))
            points.append((end, end * latency_s(end)))
    return [(load * (1 + SLACK), held) for load, held in _lower_hull(points)]


def _lower_hull(points: Levels) -> Levels:
    """Corners of the lower convex hull of points and (0, 0), without (0, 0)."""
    hull = [(0.0, 0.0)]
    for x, y in sorted(points):
        if x == hull[-1][0]:
            continue  # the lower one came first
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    return hull[1:]


def whole_servers(
    found: Relaxation, lowest: Mapping[ServerKind, float], servers: int
) -> dict[ServerKind, int]:
    """The relaxation's servers as whole numbers, at least `lowest` each and `servers` in all."""
    counts = {kind: max(int(count + 1e-6), int(lowest[kind]), 1) for kind, count in found.servers.items()}
    while sum(counts.values()) < servers:
        kind = max(counts, key=lambda k: (found.servers[k] - counts[k]) / max(1.0, found.servers[k]))
        counts[kind] += 1
    while sum(counts.values()) > servers:
        able = [k for k in counts if counts[k] > max(1, ceil(lowest[k]))]
        if not able:
            break
        counts[min(able, key=lambda k: found.servers[k] - counts[k])] -= 1
    return counts
