"""Heterogeneous schedules by rounding the relaxation (ours): pack towards its loads, then raise rates where
there is room.

The relaxation (bound.py) says how full the servers of each class should be: a class whose actions are worth
much runs on lightly loaded servers, one that only needs its minimum on full ones. Streams are packed so that
servers come near to those loads; rates that whole streams and servers do not allow fall to what equation (4)
allows, which lowers loads and latencies and is therefore always feasible; then every class is raised as far
as its servers allow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rosa_server.scheduler.placement.packing import Kind, Packer
from rosa_server.scheduler.placement.placement import (
    Worker,
    demands_of,
    fastest_rate_hz,
    latencies_ms,
    loop_rate_hz,
    workers_of,
)
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog, Load
from rosa_server.scheduler.search.fairness import Found, Rates, objective
from rosa_server.scheduler.search.polish import polish
from rosa_server.scheduler.search.relaxation import LIFT, Relaxation, relax, whole_servers

SCALES = (1.0, 0.97, 0.94, 0.9)  # of the relaxation's rates: whole streams may not fit all of them
FRONTIER_TOO = 16  # servers up to which the paper's search is tried too, with either packing
SLIGHTLY = 1e-6  # less than a linear program found, so that the next one is feasible whatever it rounds


def ideals(catalog: Catalog, problem: Problem, kinds: Sequence[Kind], servers: int) -> list[Relaxation]:
    """The relaxation's optimum and, unless `fair_share` is 0, the even solution as good as that; none when infeasible.

    A linear program ends at a corner: of two tasks that are alike one gets everything, whichever it is. So the common
    share of all is raised as far as it goes, then that of those that can have more, until none can.
    """
    minimum = {cls.name: cls.min_rate_hz for cls in problem.classes}
    floors = fair_floors(catalog, problem, kinds, servers, minimum)
    best = relax(catalog, problem, kinds, servers, floors)
    if best is None or catalog.options.fair_share <= 0 or len(problem.classes) == 1:
        return [] if best is None else [best]
    at_least = best.objective * (1 - catalog.options.tolerance)
    top = {cls.name: fastest_rate_hz(catalog, cls) for cls in problem.classes}
    even, rising = best, set(top)
    while rising:
        found = relax(catalog, problem, kinds, servers, floors, fair=rising, at_least=at_least)
        if found is None:
            break
        even, share = found, found.objective * (1 - SLIGHTLY)
        floors = {k: max(rate, share * top[k]) if k in rising else rate for k, rate in floors.items()}
        can = {name for name in rising if found.rates_hz[name] >= (share + LIFT / 2) * top[name]}
        if can == rising:
            break
        rising = can
    return [best] if even is best else [best, even]


def near(
    catalog: Catalog,
    problem: Problem,
    kinds: Sequence[Kind],
    servers: int,
    ideal: Relaxation,
    has_time: Callable[[], bool],
) -> list[Found]:
    """Schedules near a solution of the relaxation; none when rounding finds none."""
    minimum = {cls.name: cls.min_rate_hz for cls in problem.classes}
    every: list[Found] = []
    for scale in SCALES:
        rates = {name: max(minimum[name], scale * rate) for name, rate in ideal.rates_hz.items()}
        found = rounded(catalog, problem, kinds, servers, ideal, rates)
        if found is None:
            continue
        rates, workers = polish(catalog, problem, *found)
        if all(rates[name] >= minimum[name] * (1 - 1e-9) for name in rates):
            every.append((rates, workers))
            if objective(problem, rates) >= 0.99 * objective(problem, ideal.rates_hz):
                break
        if not has_time():
            break
    return every


def fair_floors(
    catalog: Catalog, problem: Problem, kinds: Sequence[Kind], servers: int, minimum: Rates
) -> Rates:
    """Floors so that no class starves: `fair_share` of its rate when all run at one common part of their fastest. A
    class with a minimum rate has only that: whoever wrote it has said what is enough.
    """
    if catalog.options.fair_share <= 0 or all(minimum.values()):
        return minimum
    fair = relax(catalog, problem, kinds, servers, minimum, fair=list(minimum))
    if fair is None:
        return minimum
    share = catalog.options.fair_share * fair.objective
    return {cls.name: minimum[cls.name] or share * fastest_rate_hz(catalog, cls) for cls in problem.classes}


def rounded(
    catalog: Catalog, problem: Problem, kinds: Sequence[Kind], servers: int, ideal: Relaxation, rates: Rates
) -> tuple[Rates, list[Worker]] | None:
    """Whole streams on whole servers near the relaxation's loads, and the rates that equation (4) then allows."""
    packers = {kind: Packer(catalog, kind, demands_of(problem, kind, rates)) for kind in kinds}
    least = {kind: packer.least() for kind, packer in packers.items()}
    if sum(least.values()) > servers:
        return None
    counts = whole_servers(ideal, least, servers)
    most = {kind: sum(demand.streams for demand in packer.demands) for kind, packer in packers.items()}
    spare = sum(max(0, counts[kind] - most[kind]) for kind in kinds)  # with a server for every stream already
    counts = {kind: min(counts[kind], most[kind]) for kind in kinds}
    while spare > 0 and (short := [kind for kind in kinds if counts[kind] < most[kind]]):
        counts[min(short, key=lambda kind: counts[kind] / ideal.servers[kind])] += 1
        spare -= 1
    workers: list[Worker] = []
    for kind, packer in packers.items():

        def target(demand: Load) -> float:
            return ideal.levels_hz.get((demand.task, demand.component), float("inf"))

        bins = packer.pack_towards(target, counts[kind])
        placed = None if bins is None else workers_of(catalog, kind, bins)
        if placed is None:
            return None
        workers += placed
    latency = latencies_ms(workers)
    return {c.name: min(rates[c.name], loop_rate_hz(c, latency)) for c in problem.classes}, workers
