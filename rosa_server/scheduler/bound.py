"""An upper bound on equation (1), and the loads that reach it: a linear program over single-class server shares.

A server at load x holds x * l(x) requests (Little's law). A class that puts a share n of a server at load x
sends n * x requests per second and has n * x * l(x) of its robots waiting. For every class c, with its shares
n over all loads x that its SLO allows:

    requests:  sum_x n x = K_c r_c f_c        for every goal-coupled kind (r: calls per action)
    robots:    K_c t_c f_c + sum n x l(x) <= K_c        (equation (4), times K_c f_c)
    servers:   sum over classes, kinds and loads of n <= servers

A server that several classes share is n_c = its part of the load, at one x: every schedule is a solution, so
no schedule exceeds the optimum. What is relaxed: whole servers and whole streams. Loads are sampled; see
LATENCY_MARGIN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]

from rosa_server.scheduler.catalog import Catalog, Options
from rosa_server.scheduler.library import ProfileLibrary
from rosa_server.scheduler.obligations import goal_kinds, provision_obligations
from rosa_server.scheduler.packing import Kind
from rosa_server.scheduler.placement import fastest_rate_hz, hosts
from rosa_server.scheduler.problem import Need, Problem

LEVELS = 40
LATENCY_MARGIN = (
    0.998  # latency between two sampled loads may lie below the line between them by less than this
)
WHOLE_SERVERS_UP_TO = 32  # above, a fraction of a server no longer matters and integers only cost time
SOLVER_MS = 3000
Levels = list[tuple[float, float]]  # (load in Hz, requests held)


@dataclass(frozen=True)
class Relaxation:
    """The optimum of the linear program."""

    objective: float  # sum of v_c K_c f_c: never below that of any schedule
    rates_hz: dict[str, float]
    servers: dict[Kind, float]
    levels_hz: dict[
        tuple[str, str], float
    ]  # (task, component) -> load of the servers that it uses, on average


def upper_bound(problem: Problem, library: ProfileLibrary, options: Options) -> float | None:
    """What equation (1) cannot exceed on these servers, whoever solves it; None when nothing is feasible."""
    catalog = Catalog(problem, library, options)
    obligations = provision_obligations(catalog, problem)
    if obligations is None:
        return None
    left = problem.servers - options.standby - len(obligations)
    floors = {cls.name: cls.min_rate_hz for cls in problem.classes}
    found = relax(catalog, problem, goal_kinds(catalog, problem), left, floors)
    return None if found is None else found.objective


def relax(
    catalog: Catalog,
    problem: Problem,
    kinds: Sequence[Kind],
    servers: int,
    floors_hz: Mapping[str, float],
    fair: bool = False,
) -> Relaxation | None:
    """Maximise equation (1), or None when even the relaxation is infeasible.

    With `fair`, the common share of every class's fastest rate is maximised instead; `objective` is that share.
    """
    whole = servers <= WHOLE_SERVERS_UP_TO
    solver = pywraplp.Solver.CreateSolver("SCIP" if whole else "GLOP")
    solver.SetTimeLimit(SOLVER_MS)
    share = solver.NumVar(0, 1, "share")
    rates, waiting = {}, {}
    for cls in problem.classes:
        top, floor = fastest_rate_hz(catalog, cls), floors_hz.get(cls.name, 0.0)
        if floor > top * (1 + 1e-9):
            return None
        rates[cls.name] = solver.NumVar(min(floor, top), top, cls.name)
        waiting[cls.name] = cls.robots * cls.action_s * rates[cls.name]
        if fair:
            solver.Add(rates[cls.name] >= share * top)
    counts = {}
    used_levels: dict[tuple[str, str], list[tuple[object, float]]] = {}
    sampled: dict[tuple[str, str, float], Levels] = {}
    for index, kind in enumerate(kinds):
        count = (
            solver.IntVar(1, max(1, servers), str(index))
            if whole
            else solver.NumVar(1, max(1, servers), str(index))
        )
        counts[kind] = count
        used = []
        for cls in problem.classes:
            for need in cls.needs:
                if not hosts(kind, need):
                    continue
                key = (need.model, need.component, need.slo_ms)
                levels = sampled.setdefault(key, sample(catalog, need))
                if not levels:
                    return None
                if not need.is_goal:
                    used.append(cls.robots * need.freq_hz / levels[-1][0])
                    continue
                shares = [solver.NumVar(0, solver.infinity(), "") for _ in levels]
                sent = [n * load for n, (load, _) in zip(shares, levels, strict=True)]
                solver.Add(solver.Sum(sent) == cls.robots * need.calls_per_action * rates[cls.name])
                waiting[cls.name] += solver.Sum(
                    [n * held for n, (_, held) in zip(shares, levels, strict=True)]
                )
                used += shares
                loads = [load for load, _ in levels]
                used_levels[(cls.name, need.component)] = list(zip(shares, loads, strict=True))
        solver.Add(solver.Sum(used) <= count)
    solver.Add(solver.Sum(list(counts.values())) <= servers)
    for cls in problem.classes:
        solver.Add(waiting[cls.name] <= cls.robots)
    solver.Maximize(
        share if fair else solver.Sum([c.weight * c.robots * rates[c.name] for c in problem.classes])
    )
    if solver.Solve() not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
        return None
    value = solver.Objective().BestBound() if whole else solver.Objective().Value()
    mean_levels = {}
    for pair, entries in used_levels.items():
        shares_sum = sum(n.solution_value() for n, _ in entries)  # type: ignore[attr-defined]
        load_sum = sum(n.solution_value() * load for n, load in entries)  # type: ignore[attr-defined]
        mean_levels[pair] = load_sum / shares_sum if shares_sum > 1e-9 else entries[0][1]
    return Relaxation(
        value,
        {name: var.solution_value() for name, var in rates.items()},
        {kind: count.solution_value() for kind, count in counts.items()},
        mean_levels,
    )


def sample(catalog: Catalog, need: Need) -> Levels:
    """Loads of one server within the SLO, with the requests it holds under the best batching that keeps the SLO."""
    choices = catalog.configurations(need.model, need.component)
    capacities = [catalog.cap(choice, need.slo_ms) for choice in choices]
    top = max(capacities, default=0.0)
    levels = []
    for step in range(1, LEVELS + 1):
        load = top * step / LEVELS
        latency_ms = min(
            choice.latency_ms(catalog.options.loop_statistic, load)
            for choice, capacity in zip(choices, capacities, strict=True)
            if load <= capacity * (1 + 1e-9)
        )
        held = load * (latency_ms + catalog.options.network_ms) / 1000 * LATENCY_MARGIN
        levels.append((load, held))
    return levels if top > 0 else []


def whole_servers(found: Relaxation, least: Mapping[Kind, float], servers: int) -> dict[Kind, int]:
    """The relaxation's servers as whole numbers, at least `least` each and `servers` in all."""
    counts = {kind: max(int(count + 1e-6), int(least[kind]), 1) for kind, count in found.servers.items()}
    while sum(counts.values()) < servers:
        kind = max(counts, key=lambda k: (found.servers[k] - counts[k]) / max(1.0, found.servers[k]))
        counts[kind] += 1
    while sum(counts.values()) > servers:
        able = [k for k in counts if counts[k] > max(1, ceil(least[k]))]
        if not able:
            break
        counts[min(able, key=lambda k: found.servers[k] - counts[k])] -= 1
    return counts
