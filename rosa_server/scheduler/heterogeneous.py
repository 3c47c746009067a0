"""Heterogeneous task scheduling (ROSA 3.4.3): adaptive frontier search over class rates, and a guided start (ours).

The frontier search is the paper's: pick the class with the largest possible weighted gain, try the rate
halfway between its feasible rate and its optimistic bound; feasible moves the frontier, infeasible prunes
every vector that is larger in all components, which, as the frontier only moves up, lowers that class's bound
for good. It ends on the frontier, but not at its best point. The guided search also starts it from a second
point: as far from the floors towards the optimum of the relaxation (bound.py) as is feasible, where the
relaxation is told the latencies that its own loads cause. The better end is kept, so guiding never loses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rosa_server.scheduler.bound import relax, shared_latency_ms
from rosa_server.scheduler.catalog import Catalog
from rosa_server.scheduler.packing import Kind
from rosa_server.scheduler.placement import Worker, fastest_rate_hz, loop_rate_hz, place_goals
from rosa_server.scheduler.problem import Problem

Rates = dict[str, float]
Oracle = Callable[[Mapping[str, float]], list[Worker] | None]
RAY_STEPS = 12
TARGET_STEPS = 4


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
    workers = oracle(floors)
    if workers is None:
        return None
    if catalog.options.fair_share > 0:
        floors, workers = raised_floors(catalog, problem, floors, top, oracle, workers)
    starts = [(floors, workers)]
    if catalog.options.search == "guided":
        for ideal in targets(catalog, problem, kinds, servers, floors):
            starts.append(furthest(floors, ideal, oracle, starts[0]))
    ends = []
    for start in starts:
        ends.append(
            frontier(problem, start, top, oracle, catalog.options.tolerance, lambda: clock() < deadline)
        )
        if clock() >= deadline:
            break
    rates, workers = max(ends, key=lambda end: objective(problem, end[0]))
    final = place_goals(catalog, problem, kinds, rates, servers, use_all=True)
    return rates, final or workers


def objective(problem: Problem, rates: Mapping[str, float]) -> float:
    """Equation (1)."""
    return sum(cls.weight * cls.robots * rates[cls.name] for cls in problem.classes)


def targets(
    catalog: Catalog, problem: Problem, kinds: Sequence[Kind], servers: int, floors: Rates
) -> list[Rates]:
    """Rates near the optimum: the relaxation, each class bounded by its round at the latencies the last
    answer causes.
    """
    tops: Rates = {}
    found: list[Rates] = []
    for _ in range(TARGET_STEPS):
        ideal = relax(catalog, problem, kinds, servers, floors, tops)
        if ideal is None:
            break
        found.append(ideal.rates_hz)
        latency = shared_latency_ms(catalog, problem, ideal)
        for cls in problem.classes:
            now = max(loop_rate_hz(cls, {(cls.name, c): ms for c, ms in latency.items()}), floors[cls.name])
            tops[cls.name] = (now + tops.get(cls.name, now)) / 2
    return found[1:]


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


def furthest(
    start: Rates, goal: Rates, oracle: Oracle, best: tuple[Rates, list[Worker]]
) -> tuple[Rates, list[Worker]]:
    """The last feasible point on the way from `start` to `goal`, by bisection."""
    low, high = 0.0, 2.0  # the first trial is the goal itself
    for _ in range(RAY_STEPS):
        share = (low + high) / 2
        if share > 1:
            break
        rates = {name: start[name] + share * (goal[name] - start[name]) for name in start}
        found = oracle(rates)
        if found is None:
            high = share
        else:
            best, low = (rates, found), share
            if share == 1:
                break
    return best


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
