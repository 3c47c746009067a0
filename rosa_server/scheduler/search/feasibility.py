"""Whether servers carry given action rates: a placement for them, where one of our ways to place streams finds one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rosa_server.scheduler.placement.obligations import provision_obligations
from rosa_server.scheduler.placement.pool import Pool, place_goals
from rosa_server.scheduler.placement.servers import PlacedServer, latencies_ms, loop_rate_hz
from rosa_server.scheduler.problem import Problem, StreamClass
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.search.homogeneous import place_class
from rosa_server.scheduler.search.relaxation import relax
from rosa_server.scheduler.search.rounding import FRONTIER_UP_TO, round_to_servers

CORRECTIONS = 6


def is_served(catalog: Catalog, problem: Problem, servers: int) -> bool:
    """Whether `servers` active servers keep every SLO of `problem` at its minimum rates."""
    obligations = provision_obligations(catalog, problem)
    pool = Pool(catalog, problem, servers - len(obligations or ()))
    if obligations is None or pool.servers < len(pool.kinds):
        return False
    return place_at_rates(pool, problem.min_rates_hz) is not None


def place_at_rates(pool: Pool, rates_hz: Mapping[str, float]) -> list[PlacedServer] | None:
    """Goal-coupled servers that carry these rates within every SLO and equation (4), or None where none are found.

    With one class the ILP decides. With several no single packing is always the best: a common level for all classes
    makes those wait too long that must act near their fastest rate, and each class by itself may need more servers. So
    streams are packed towards the relaxation's loads, and on few servers, where that is quick, in the other two ways
    too.
    """
    options, cls = pool.catalog.options, pool.problem.classes[0]
    if len(pool.problem.classes) == 1 and not options.share_components and rates_hz[cls.name] > 0:
        return place_class(pool.catalog, cls, rates_hz[cls.name], pool.servers)
    by_relaxation = options.search == "relaxation"
    found = _towards_relaxation(pool, rates_hz) if by_relaxation else None
    if found is None and (pool.servers <= FRONTIER_UP_TO or not by_relaxation):
        found = place_goals(pool, rates_hz)
        if found is None and options.packing != "isolated":
            found = place_goals(pool.packed("isolated"), rates_hz)
    return found


def _towards_relaxation(pool: Pool, rates_hz: Mapping[str, float]) -> list[PlacedServer] | None:
    """Servers packed towards the loads that the relaxation has at these rates or above.

    As streams cannot be divided, some classes wait longer than in the relaxation and others less: the target load of
    each is corrected by the waiting that its rate allows over the waiting that it has.
    """
    target = relax(pool, rates_hz)
    if target is None:
        return None
    for _ in range(CORRECTIONS):
        found = round_to_servers(pool, target, dict(rates_hz))
        if found is None:
            return None
        if all(found.rates_hz[name] >= rate * (1 - 1e-9) for name, rate in rates_hz.items()):
            return found.placed
        latency, levels_hz = latencies_ms(found.placed), dict(target.levels_hz)
        for cls in pool.problem.classes:
            if rates_hz[cls.name] > 0:
                allowed_s = 1 / rates_hz[cls.name] - cls.action_s
                waited_s = 1 / loop_rate_hz(cls, latency) - cls.action_s
                for need in cls.goals:
                    levels_hz[StreamClass(cls.name, need.component)] *= allowed_s / waited_s
        target = replace(target, levels_hz=levels_hz)
    return None
