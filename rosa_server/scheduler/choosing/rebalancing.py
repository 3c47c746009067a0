"""Moves servers from one model to another where the fleet is then predicted to act more often.

The solver divides servers so that its rates hold for any arrivals. Carried out, System 1 runs larger batches than those
rates need, and rounds wait for the model that has few servers: 128 robots of P4 on 16 servers waited for the only
server of System 2, and act a fifth more often with two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations

from rosa_contract.config.tasks import SYSTEM1
from rosa_server.scheduler.bisection import bisect
from rosa_server.scheduler.placement.obligations import provision_obligations
from rosa_server.scheduler.placement.packing import Packer, ServerKind
from rosa_server.scheduler.placement.pool import Pool
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.placement.servers import (
    PlacedServer,
    demands_of,
    latencies_ms,
    loop_rate_hz,
    placed_servers,
)
from rosa_server.scheduler.placement.standby import with_standby
from rosa_server.scheduler.placement.to_schedule import build_schedule
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.fairness import Candidate
from rosa_server.scheduler.search.polish import polish

MIN_MOVE_GAIN = 1.01  # factor on what is predicted that a move has to bring
LARGEST_MOVE, SMALLEST_MOVE = (
    8,
    64,
)  # divisors: a move takes an eighth of the servers at first, and a 64th at the end
RATE_STEPS = 6  # bisections for the rates that a division of the servers still carries


def rebalanced(
    schedule: Schedule,
    highest: float,
    worth: Callable[[Schedule], float],
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    clock: Callable[[], float] = lambda: 0.0,
) -> Schedule:
    """A feasible schedule, worth `highest`, with its goal-coupled servers divided so that `worth` is greatest. It
    climbs hills, so there may be better ones. Every SLO and minimum rate is kept. `clock` ends it as it ends `solve`.
    """
    shared = any(len(server.components) > 1 for server in schedule.servers)
    catalog = Catalog(problem, library, replace(options, share_components=shared))
    obligations = provision_obligations(catalog, problem)
    pool = Pool(catalog, problem, 0)
    counts = {
        kind: sum(
            not s.standby and s.model == kind.model and s.components[0] in kind.components
            for s in schedule.servers
        )
        for kind in pool.kinds
    }
    if obligations is None or len(counts) < 2:
        return schedule
    rates_hz = {task: rates[SYSTEM1] for task, rates in schedule.rates_hz.items()}
    best, ends_s = schedule, clock() + options.time_budget_s
    servers = sum(counts.values())
    step, smallest = max(1, servers // LARGEST_MOVE), max(1, servers // SMALLEST_MOVE)
    while step >= smallest and clock() < ends_s:
        found = None
        for giver, taker in permutations(counts, 2):
            if counts[giver] <= step:
                continue
            moved = {**counts, giver: counts[giver] - step, taker: counts[taker] + step}
            candidate = divided(pool, moved, rates_hz)
            if candidate is None:
                continue
            placed = [*candidate.placed, *obligations]
            other = build_schedule(catalog, problem, placed, candidate.rates_hz, schedule.scheduler)
            other = with_standby(replace(other, options=schedule.options), problem, library, options.standby)
            value = worth(other)
            if value > MIN_MOVE_GAIN * highest:
                found, highest = (other, moved), value
        if found is None:
            step //= 2
        else:
            best, counts = found
    return best


def divided(pool: Pool, counts: Mapping[ServerKind, int], rates_hz: Mapping[str, float]) -> Candidate | None:
    """The streams of every goal-coupled component on `counts` servers of each kind, at rates of at most `rates_hz` or
    higher ones where there is room; None where that breaks an SLO or a minimum rate."""
    smallest = pool.problem.min_rates_hz

    def placed(share: float) -> tuple[dict[str, float], list[PlacedServer]] | None:
        rates = {task: max(smallest[task], share * rate) for task, rate in rates_hz.items()}
        found: list[PlacedServer] = []
        for kind, count in counts.items():
            packed = Packer(pool.catalog, kind, demands_of(pool.problem, kind, rates)).pack(count)
            servers = None if packed is None else placed_servers(pool.catalog, kind, packed)
            if servers is None:
                return None
            found += servers
        return rates, found

    lowest = placed(0.0) if all(smallest.values()) else placed(1e-3)
    if lowest is None:
        return None
    whole = placed(1.0)
    rates, servers = whole or bisect(placed, 0.0, 1.0, lowest, RATE_STEPS)[1]
    waits = latencies_ms(servers)
    reached = {c.name: min(rates[c.name], loop_rate_hz(c, waits)) for c in pool.problem.classes}
    if any(reached[task] < rate * (1 - 1e-9) for task, rate in smallest.items()):
        return None
    return polish(pool, Candidate(reached, servers))
