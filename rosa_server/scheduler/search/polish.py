"""Raising the rates of a placement that was just found, as far as SLOs and equation (4) allow."""

from __future__ import annotations

from functools import partial

from rosa_server.scheduler.bisection import bisect
from rosa_server.scheduler.placement.pool import Pool
from rosa_server.scheduler.placement.raising import FixedPlacement, OperatingPoint
from rosa_server.scheduler.placement.servers import PlacedServer, loads_at, placed_servers
from rosa_server.scheduler.search.fairness import Candidate, Rates

PASSES, STEPS, PRECISION = 2, 7, 1e-3


def polish(pool: Pool, candidate: Candidate) -> Candidate:
    """The same placement at rates that are no lower.

    Classes are raised one after the other by bisection, those with the most value per unit of server time first.
    """
    placed = _at_rates(pool, candidate.placed, candidate.rates_hz)
    fixed = FixedPlacement(pool.catalog, pool.problem, placed, candidate.rates_hz)

    def raised(name: str, start: OperatingPoint, rate_hz: float) -> OperatingPoint | None:
        return fixed.raised({name: rate_hz}, start)

    point = fixed.start
    order = sorted(
        pool.problem.classes, key=lambda cls: -cls.weight / sum(n.calls_per_action for n in cls.goals)
    )
    for _ in range(PASSES):
        for cls in order:
            rate_hz, max_hz = point.rates_hz[cls.name], pool.fastest_hz[cls.name]
            _, point = bisect(partial(raised, cls.name, point), rate_hz, max_hz, point, STEPS, PRECISION)
    return Candidate(point.rates_hz, _at_rates(pool, placed, point.rates_hz))


def _at_rates(pool: Pool, placed: list[PlacedServer], rates_hz: Rates) -> list[PlacedServer]:
    found: list[PlacedServer] = []
    for server in placed:
        loads = list(loads_at(server.loads, pool.problem.needs, rates_hz))
        servers = placed_servers(pool.catalog, server.kind, [loads])
        assert servers is not None, f"an SLO breaks at rates that were checked: {rates_hz}"
        found += servers
    return found
