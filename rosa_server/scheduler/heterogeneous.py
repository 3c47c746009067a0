"""Heterogeneous task scheduling (ROSA 3.4.3): adaptive frontier search over class rates.

The search is the paper's: pick the class with the largest possible weighted gain, try the rate halfway
between its feasible rate and its optimistic bound; feasible moves the frontier, infeasible prunes every
vector that is larger in all components, which, as the frontier only moves up, lowers that class's bound for
good. It ends on the frontier, but not at its best point; guided.py (ours) goes for that. With
`search="guided"` both run where the frontier is cheap, and the better one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rosa_server.scheduler.carry import carry
from rosa_server.scheduler.catalog import Catalog
from rosa_server.scheduler.guided import FRONTIER_TOO, objective, solve_guided
from rosa_server.scheduler.packing import Kind
from rosa_server.scheduler.placement import Worker, fastest_rate_hz, place_goals
from rosa_server.scheduler.polish import polish
from rosa_server.scheduler.problem import Problem

Rates = dict[str, float]
Oracle = Callable[[Mapping[str, float]], list[Worker] | None]


def solve_heterogeneous(
    catalog: Catalog, problem: Problem, kinds: Sequence[Kind], servers: int, clock: Callable[[], float]
) -> tuple[Rates, list[Worker]] | None:
    """Class rates that maximise equation (1) and the goal-coupled workers; None when the floors are infeasible.

    `clock` returns seconds; the search stops at `time_budget_s` after its first reading.
    """
    deadline = clock() + catalog.options.time_budget_s

    def oracle(rates: Mapping[str, float]) -> list[Worker] | None:
        return place_goals(catalog, problem, kinds, rates, servers)

    top = {cls.name: fastest_rate_hz(catalog, cls) for cls in problem.classes}
    floors = {cls.name: cls.min_rate_hz for cls in problem.classes}
    best: tuple[Rates, list[Worker]] | None = None
    if catalog.options.search == "guided":
        best = solve_guided(catalog, problem, kinds, servers, lambda: clock() < deadline)
        if best is not None and servers > FRONTIER_TOO:
            return best
    workers = carry(catalog, problem, kinds, floors, servers)
    if workers is None:
        return best
    if catalog.options.fair_share > 0:
        floors, workers = raised_floors(catalog, problem, floors, top, oracle, workers)
    found = frontier(
        problem, (floors, workers), top, oracle, catalog.options.tolerance, lambda: clock() < deadline
    )
    final = place_goals(catalog, problem, kinds, found[0], servers, use_all=True)
    found = polish(catalog, problem, found[0], final or found[1])
    if best is not None and objective(problem, best[0]) >= objective(problem, found[0]):
        return best
    return found


def raised_floors(
    catalog: Catalog, problem: Problem, floors: Rates, top: Rates, oracle: Oracle, workers: list[Worker]
) -> tuple[Rates, list[Worker]]:
    """Floors so that no class starves: `fair_share` of the rate it has when all run at one fraction of their
    fastest.
    """
    low, high = 0.0, 1.0
    for _ in range(8):
        share = (low + high) / 2
        if oracle({name: max(floors[name], share * top[name]) for name in floors}) is None:
            high = share
        else:
            low = share
    share = low * catalog.options.fair_share
    raised = {name: max(floors[name], share * top[name]) for name in floors}
    found = oracle(raised)
    return (floors, workers) if found is None else (raised, found)


def frontier(
    problem: Problem,
    start: tuple[Rates, list[Worker]],
    top: Rates,
    oracle: Oracle,
    tolerance: float,
    has_time: Callable[[], bool],
) -> tuple[Rates, list[Worker]]:
    """Greedy adaptive frontier search from a feasible point; `tolerance` is relative to the objective."""
    rates, workers = dict(start[0]), start[1]
    upper = {name: max(top[name], rates[name]) for name in rates}
    value = {cls.name: cls.weight * cls.robots for cls in problem.classes}
    while has_time():
        gain = {name: value[name] * (upper[name] - rates[name]) for name in rates}
        if sum(gain.values()) <= tolerance * max(objective(problem, rates), 1e-9):
            break
        name = max(gain, key=lambda key: gain[key])
        trial = {**rates, name: (rates[name] + upper[name]) / 2}
        found = oracle(trial)
        if found is None:
            upper[name] = trial[name]
        else:
            rates, workers = trial, found
        if upper[name] - rates[name] < 1e-4 * top[name]:
            upper[name] = rates[name]
    return rates, workers
