"""Heterogeneous task scheduling (ROSA 3.4.3): adaptive frontier search over class rates.

The search is the paper's: pick the class with the largest possible weighted gain, try the rate halfway
between its feasible rate and its optimistic bound; feasible moves the frontier, infeasible prunes every
vector that is larger in all components, which, as the frontier only moves up, lowers that class's bound for
good. It ends on the frontier, but not at its best point; rounding.py (ours) aims for that. With
`search="relaxation"` both run where the frontier is cheap, and the better result is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rosa_server.scheduler.bisection import furthest
from rosa_server.scheduler.placement.pool import Pool, place_goals
from rosa_server.scheduler.placement.servers import PlacedServer
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.search.fairness import Candidate, Rates, best_candidate, is_balanced
from rosa_server.scheduler.search.feasibility import place_at_rates
from rosa_server.scheduler.search.polish import polish
from rosa_server.scheduler.search.relaxation import Relaxation
from rosa_server.scheduler.search.rounding import FRONTIER_UP_TO, candidates_near, relaxations

Oracle = Callable[[Mapping[str, float]], list[PlacedServer] | None]
BALANCED_WORK = 30_000  # placements to try, times classes squared and servers: a second or less
CALLS_PER_CLASS = 4  # of a search that raises every class at least a little
BALANCED_FROM, BALANCED_STEPS = 0.8, 5  # of the relaxation's balanced rates: where packing may still succeed
BALANCED_PARTS = (1.0, 0.95, 0.9)  # of the highest feasible ones: where the search begins
FAIR_STEPS = 8


def solve_heterogeneous(pool: Pool, clock: Callable[[], float]) -> Candidate | None:
    """Class rates that maximise equation (1) and their servers; None when the minimum rates are infeasible.

    `clock` returns seconds; the search stops at `time_budget_s` after its first reading.
    """
    options = pool.catalog.options
    deadline = clock() + options.time_budget_s

    def has_time() -> bool:
        return clock() < deadline

    pools = [pool]
    candidates: list[Candidate] = []
    relaxed: list[Relaxation] = []
    if options.search == "relaxation":
        if options.packing == "level" and pool.servers <= FRONTIER_UP_TO:
            pools.append(pool.packed("isolated"))
        relaxed = relaxations(pool)
        for target in relaxed:
            candidates += candidates_near(pool, target, has_time)
    if not candidates or pool.servers <= FRONTIER_UP_TO:
        for each in pools:
            candidates += frontier_candidates(each, has_time)
    best = best_candidate(pool, candidates)
    if len(relaxed) < 2 or is_balanced(pool, best, relaxed[-1].rates_hz):
        return best
    for each in pools:
        candidates += balanced_candidates(each, relaxed[-1].rates_hz, has_time)
    return best_candidate(pool, candidates)


def frontier_candidates(pool: Pool, has_time: Callable[[], bool]) -> list[Candidate]:
    """The schedule at which the paper's search ends; none when the minimum rates are infeasible."""

    def oracle(rates_hz: Mapping[str, float]) -> list[PlacedServer] | None:
        return place_goals(pool, rates_hz)

    floors = pool.problem.min_rates_hz
    placed = place_at_rates(pool, floors)
    if placed is None:
        return []
    start = Candidate(floors, placed)
    if pool.catalog.options.fair_share > 0 and not all(floors.values()):
        start = with_fair_shares(pool, start, oracle)
    return [_finished(pool, frontier(pool, start, oracle, has_time))]


def balanced_candidates(
    pool: Pool, balanced_hz: Mapping[str, float], has_time: Callable[[], bool]
) -> list[Candidate]:
    """Schedules at the frontier near balanced rates.

    The search begins as far towards those rates as packing allows, and at parts of that: streams cannot be divided, so
    servers are seldom full at exactly balanced rates, and what is left may go to any class. The size of the problem
    decides how much is tried, unless the time runs out.
    """
    left = BALANCED_WORK // (len(pool.problem.classes) ** 2 * max(pool.servers, FRONTIER_UP_TO))
    if left < BALANCED_STEPS + CALLS_PER_CLASS * len(pool.problem.classes):
        return []
    floors = pool.problem.min_rates_hz

    def oracle(rates_hz: Mapping[str, float]) -> list[PlacedServer] | None:
        nonlocal left
        left -= 1
        return place_goals(pool, rates_hz)

    def rates_at(part: float) -> Rates:
        return {name: max(floor, part * balanced_hz[name]) for name, floor in floors.items()}

    def goes_on() -> bool:
        return left > 0 and has_time()

    def feasible_at(part: float) -> bool:
        return oracle(rates_at(part)) is not None

    candidates: list[Candidate] = []
    feasible = furthest(feasible_at, BALANCED_FROM, 1.0, BALANCED_STEPS)
    for part in BALANCED_PARTS:
        rates = rates_at(part * feasible)
        placed = oracle(rates) if goes_on() else None
        if placed is not None:
            found = frontier(pool, Candidate(rates, placed), oracle, goes_on)
            candidates.append(_finished(pool, found))
    return candidates


def _finished(pool: Pool, candidate: Candidate) -> Candidate:
    """With servers that are left over, and every rate as high as its servers allow."""
    placed = place_goals(pool, candidate.rates_hz, use_all=True) or candidate.placed
    return polish(pool, Candidate(candidate.rates_hz, placed))


def with_fair_shares(pool: Pool, start: Candidate, oracle: Oracle) -> Candidate:
    """`start` with higher floors, so that no class without a minimum rate starves: `fair_share` of the rate that it has
    when all run at one fraction of their fastest. `start` itself where packing does not allow that.
    """
    floors = start.rates_hz

    def feasible_at(share: float) -> bool:
        return (
            oracle({name: max(floors[name], share * top) for name, top in pool.fastest_hz.items()})
            is not None
        )

    share = furthest(feasible_at, 0.0, 1.0, FAIR_STEPS) * pool.catalog.options.fair_share
    raised = {name: floor or share * pool.fastest_hz[name] for name, floor in floors.items()}
    placed = oracle(raised)
    return start if placed is None else Candidate(raised, placed)


def frontier(pool: Pool, start: Candidate, oracle: Oracle, has_time: Callable[[], bool]) -> Candidate:
    """Greedy adaptive frontier search from a feasible point."""
    problem, tolerance = pool.problem, pool.catalog.options.tolerance
    rates, placed = dict(start.rates_hz), start.placed
    upper = {name: max(pool.fastest_hz[name], rate) for name, rate in rates.items()}
    value = _value_per_hz(problem)
    while has_time():
        gain = {name: value[name] * (upper[name] - rates[name]) for name in rates}
        if sum(gain.values()) <= tolerance * max(problem.objective(rates), 1e-9):
            break
        name = max(gain, key=lambda key: gain[key])
        trial = {**rates, name: (rates[name] + upper[name]) / 2}
        found = oracle(trial)
        if found is None:
            upper[name] = trial[name]
        else:
            rates, placed = trial, found
        if upper[name] - rates[name] < 1e-4 * pool.fastest_hz[name]:
            upper[name] = rates[name]
    return Candidate(rates, placed)


def _value_per_hz(problem: Problem) -> dict[str, float]:
    """Class -> what equation (1) gains per Hz of its rate."""
    return {cls.name: cls.weight * cls.robots for cls in problem.classes}
