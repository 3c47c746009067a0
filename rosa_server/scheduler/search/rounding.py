"""Heterogeneous schedules by rounding the relaxation (ours): pack towards its loads, then raise rates where servers
have room.

The relaxation says how full the servers of each class should be: a class whose actions are worth much runs on lightly
loaded servers, one that only needs its minimum on full ones. Streams are packed so that servers come near to those
loads; rates that whole streams and servers do not allow fall to what equation (4) allows, which lowers loads and
latencies and is therefore always feasible; then every class is raised as far as its servers allow.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from rosa_server.scheduler.placement.packing import Packer
from rosa_server.scheduler.placement.pool import Pool
from rosa_server.scheduler.placement.servers import (
    PlacedServer,
    demands_of,
    latencies_ms,
    loop_rate_hz,
    placed_servers,
)
from rosa_server.scheduler.search.fairness import Candidate, Rates
from rosa_server.scheduler.search.polish import polish
from rosa_server.scheduler.search.relaxation import LIFT, Relaxation, relax, whole_servers

SCALES = (1.0, 0.97, 0.94, 0.9)  # of the relaxation's rates: whole streams may not fit all of them
FRONTIER_UP_TO = 16  # servers up to which the paper's search is tried too, with either packing
SLIGHTLY = 1e-6  # less than one linear program found, so that rounding does not make the next one infeasible


def relaxations(pool: Pool) -> list[Relaxation]:
    """The relaxation's optimum and, unless `fair_share` is 0, its balanced solution; none when infeasible.

    A linear program ends at a corner: of two identical tasks one gets everything. The balanced solution is within the
    tolerance of the optimum: the common share of all classes is raised as far as it goes, then that of the classes that
    can have more, until none can.
    """
    floors = fair_floors(pool)
    best = relax(pool, floors)
    if best is None or pool.catalog.options.fair_share <= 0 or len(pool.problem.classes) == 1:
        return [] if best is None else [best]
    at_least = best.objective * (1 - pool.catalog.options.tolerance)
    top = pool.fastest_hz
    balanced, rising = best, set(top)
    while rising:
        found = relax(pool, floors, fair=rising, at_least=at_least)
        if found is None:
            break
        balanced, share = found, found.objective * (1 - SLIGHTLY)
        floors = {k: max(rate, share * top[k]) if k in rising else rate for k, rate in floors.items()}
        can_rise = {name for name in rising if found.rates_hz[name] >= (share + LIFT / 2) * top[name]}
        if can_rise == rising:
            break
        rising = can_rise
    return [best] if balanced is best else [best, balanced]


def candidates_near(pool: Pool, target: Relaxation, has_time: Callable[[], bool]) -> list[Candidate]:
    """Schedules near a solution of the relaxation; none when rounding finds none."""
    minimum = pool.problem.min_rates_hz
    candidates: list[Candidate] = []
    for scale in SCALES:
        rates = {name: max(minimum[name], scale * rate) for name, rate in target.rates_hz.items()}
        found = round_to_servers(pool, target, rates)
        if found is None:
            continue
        found = polish(pool, found)
        if all(found.rates_hz[name] >= lowest * (1 - 1e-9) for name, lowest in minimum.items()):
            candidates.append(found)
            if pool.problem.objective(found.rates_hz) >= 0.99 * pool.problem.objective(target.rates_hz):
                break
        if not has_time():
            break
    return candidates


def fair_floors(pool: Pool) -> Rates:
    """Floors so that no class starves: `fair_share` of its rate when all run at one common part of their fastest.

    A class with a minimum rate gets that alone: its author has stated how much is enough.
    """
    minimum, fair_share = pool.problem.min_rates_hz, pool.catalog.options.fair_share
    if fair_share <= 0 or all(minimum.values()):
        return minimum
    fair = relax(pool, minimum, fair=list(minimum))
    if fair is None:
        return minimum
    share = fair_share * fair.objective
    return {name: lowest or share * pool.fastest_hz[name] for name, lowest in minimum.items()}


def round_to_servers(pool: Pool, target: Relaxation, rates_hz: Rates) -> Candidate | None:
    """Whole streams on whole servers near the relaxation's loads, and the rates that equation (4) then allows."""
    packers = {
        kind: Packer(pool.catalog, kind, demands_of(pool.problem, kind, rates_hz)) for kind in pool.kinds
    }
    lowest = {kind: packer.min_servers() for kind, packer in packers.items()}
    if sum(lowest.values()) > pool.servers:
        return None
    counts = whole_servers(target, lowest, pool.servers)
    highest = {kind: sum(demand.streams for demand in packer.demands) for kind, packer in packers.items()}
    spare = sum(
        max(0, counts[kind] - highest[kind]) for kind in counts
    )  # every stream has a server to itself
    counts = {kind: min(counts[kind], highest[kind]) for kind in counts}
    while spare > 0 and (short := [kind for kind in counts if counts[kind] < highest[kind]]):
        counts[min(short, key=lambda kind: counts[kind] / target.servers[kind])] += 1
        spare -= 1
    placed: list[PlacedServer] = []
    for kind, packer in packers.items():
        packed = packer.pack_towards(lambda load: target.levels_hz.get(load.stream_class, inf), counts[kind])
        servers = None if packed is None else placed_servers(pool.catalog, kind, packed)
        if servers is None:
            return None
        placed += servers
    latency = latencies_ms(placed)
    reached = {c.name: min(rates_hz[c.name], loop_rate_hz(c, latency)) for c in pool.problem.classes}
    return Candidate(reached, placed)
