"""Heterogeneous task scheduling (ROSA 3.4.3): adaptive frontier search over class rates.

The search is the paper's: pick the class with the largest possible weighted gain, try the rate halfway
between its feasible rate and its optimistic bound; feasible moves the frontier, infeasible prunes every
vector that is larger in all components, which, as the frontier only moves up, lowers that class's bound for
good. It ends on the frontier, but not at its best point; guided.py (ours) goes for that. With
`search="guided"` both run where the frontier is cheap, and the better one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rosa_server.scheduler.placement.packing import Kind
from rosa_server.scheduler.placement.placement import Worker, fastest_rate_hz, place_goals
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.search.fairness import Found, Rates, chosen, is_even, objective
from rosa_server.scheduler.search.feasibility import carry
from rosa_server.scheduler.search.polish import polish
from rosa_server.scheduler.search.relaxation import Relaxation
from rosa_server.scheduler.search.rounding import FRONTIER_TOO, ideals, near

Oracle = Callable[[Mapping[str, float]], list[Worker] | None]
EVEN_WORK = 30_000  # placements tried for even rates, times classes squared and servers: a second or less
CALLS_PER_CLASS = 4  # of a search that raises every class at least a little
EVEN_FROM, EVEN_STEPS = 0.8, 5  # of the relaxation's even rates: where to look for what packing allows
EVEN_PARTS = (1.0, 0.95, 0.9)  # of that: where the search begins


def solve_heterogeneous(
    catalog: Catalog, problem: Problem, kinds: Sequence[Kind], servers: int, clock: Callable[[], float]
) -> tuple[Rates, list[Worker]] | None:
    """Class rates that maximise equation (1) and the goal-coupled workers; None when the floors are infeasible.

    `clock` returns seconds; the search stops at `time_budget_s` after its first reading.
    """
    deadline = clock() + catalog.options.time_budget_s

    def has_time() -> bool:
        return clock() < deadline

    ways = [catalog]
    every: list[Found] = []
    relaxed: list[Relaxation] = []
    if catalog.options.search == "guided":
        if catalog.options.packing == "level" and servers <= FRONTIER_TOO:
            ways.append(catalog.packed("isolated"))
        relaxed = ideals(catalog, problem, kinds, servers)
        for ideal in relaxed:
            every += near(catalog, problem, kinds, servers, ideal, has_time)
    if not every or servers <= FRONTIER_TOO:
        for way in ways:
            every += searched(way, problem, kinds, servers, has_time)
    best = chosen(catalog, problem, every)
    if len(relaxed) < 2 or is_even(catalog, problem, best, relaxed[-1].rates_hz):
        return best
    for way in ways:
        every += evened(way, problem, kinds, servers, relaxed[-1].rates_hz, has_time)
    return chosen(catalog, problem, every)


def searched(
    catalog: Catalog, problem: Problem, kinds: Sequence[Kind], servers: int, has_time: Callable[[], bool]
) -> list[Found]:
    """The schedule at the frontier that the paper's search ends at; none when the floors are infeasible."""

    def oracle(rates: Mapping[str, float]) -> list[Worker] | None:
        return place_goals(catalog, problem, kinds, rates, servers)

    top = {cls.name: fastest_rate_hz(catalog, cls) for cls in problem.classes}
    floors = {cls.name: cls.min_rate_hz for cls in problem.classes}
    workers = carry(catalog, problem, kinds, floors, servers)
    if workers is None:
        return []
    if catalog.options.fair_share > 0 and not all(floors.values()):
        floors, workers = raised_floors(catalog, floors, top, oracle, workers)
    found = frontier(problem, (floors, workers), top, oracle, catalog.options.tolerance, has_time)
    return [_finished(catalog, problem, kinds, servers, found)]


def evened(
    catalog: Catalog,
    problem: Problem,
    kinds: Sequence[Kind],
    servers: int,
    even: Mapping[str, float],
    has_time: Callable[[], bool],
) -> list[Found]:
    """Schedules at the frontier near even rates: as far towards them as packing allows, and from there, and from parts
    of that, wherever the search goes.

    Whole streams seldom fill servers at exactly even rates: what is left is free for some class. How much is tried
    depends on the size of the problem, unless the time runs out.
    """
    left = EVEN_WORK // (len(problem.classes) ** 2 * max(servers, FRONTIER_TOO))
    if left < EVEN_STEPS + CALLS_PER_CLASS * len(problem.classes):
        return []

    def oracle(rates: Mapping[str, float]) -> list[Worker] | None:
        nonlocal left
        left -= 1
        return place_goals(catalog, problem, kinds, rates, servers)

    def goes_on() -> bool:
        return left > 0 and has_time()

    top = {cls.name: fastest_rate_hz(catalog, cls) for cls in problem.classes}
    floors = {cls.name: cls.min_rate_hz for cls in problem.classes}
    every: list[Found] = []
    low, high = EVEN_FROM, 1.0
    for _ in range(EVEN_STEPS):
        part = (low + high) / 2
        if oracle({name: max(floors[name], part * even[name]) for name in floors}) is None:
            high = part
        else:
            low = part
    for part in EVEN_PARTS:
        rates = {name: max(floors[name], part * low * even[name]) for name in floors}
        workers = oracle(rates) if goes_on() else None
        if workers is not None:
            found = frontier(problem, (rates, workers), top, oracle, catalog.options.tolerance, goes_on)
            every.append(_finished(catalog, problem, kinds, servers, found))
    return every


def _finished(catalog: Catalog, problem: Problem, kinds: Sequence[Kind], servers: int, found: Found) -> Found:
    """With servers that are left over, and every rate as high as its servers allow."""
    rates, workers = found
    return polish(
        catalog, problem, rates, place_goals(catalog, problem, kinds, rates, servers, use_all=True) or workers
    )


def raised_floors(
    catalog: Catalog, floors: Rates, top: Rates, oracle: Oracle, workers: list[Worker]
) -> tuple[Rates, list[Worker]]:
    """Floors so that no class without a minimum rate starves: `fair_share` of the rate it has when all run at one
    fraction of their fastest.
    """
    low, high = 0.0, 1.0
    for _ in range(8):
        share = (low + high) / 2
        if oracle({name: max(floors[name], share * top[name]) for name in floors}) is None:
            high = share
        else:
            low = share
    share = low * catalog.options.fair_share
    raised = {name: floor or share * top[name] for name, floor in floors.items()}
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
