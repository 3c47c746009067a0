"""Whether servers carry given action rates: a placement for them, where one of our ways to place streams finds one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rosa_server.scheduler.placement.packing import Kind
from rosa_server.scheduler.placement.placement import Worker, latencies_ms, loop_rate_hz, place_goals
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.search.homogeneous import place_at
from rosa_server.scheduler.search.relaxation import relax
from rosa_server.scheduler.search.rounding import FRONTIER_TOO, rounded

CORRECTIONS = 6


def carry(
    catalog: Catalog, problem: Problem, kinds: Sequence[Kind], rates_hz: Mapping[str, float], servers: int
) -> list[Worker] | None:
    """Goal-coupled workers that carry these rates within every SLO and equation (4), or None where none are found.

    One class: the ILP decides. Several: no packing is always the best one. One common level for all lets those wait
    too long that must act near their fastest rate, and each class by itself may need more servers; so streams are
    packed towards the relaxation's loads, and on few servers, where that is quick, in the other two ways too.
    """
    cls = problem.classes[0]
    if len(problem.classes) == 1 and not catalog.options.share_components and rates_hz[cls.name] > 0:
        return place_at(catalog, cls, rates_hz[cls.name], servers)
    guided = catalog.options.search == "guided"
    found = towards_relaxation(catalog, problem, kinds, rates_hz, servers) if guided else None
    if found is None and (servers <= FRONTIER_TOO or not guided):
        found = place_goals(catalog, problem, kinds, rates_hz, servers)
        if found is None and catalog.options.packing != "isolated":
            found = place_goals(catalog.packed("isolated"), problem, kinds, rates_hz, servers)
    return found


def towards_relaxation(
    catalog: Catalog, problem: Problem, kinds: Sequence[Kind], rates_hz: Mapping[str, float], servers: int
) -> list[Worker] | None:
    """Workers packed towards the loads that the relaxation has at these rates or above.

    Whole streams make some classes wait longer than that and others less: the loads of each are corrected by the
    waiting that its rate allows over the waiting it has.
    """
    ideal = relax(catalog, problem, kinds, servers, rates_hz)
    if ideal is None:
        return None
    for _ in range(CORRECTIONS):
        found = rounded(catalog, problem, kinds, servers, ideal, dict(rates_hz))
        if found is None:
            return None
        reached, workers = found
        if all(reached[name] >= rate * (1 - 1e-9) for name, rate in rates_hz.items()):
            return workers
        latency, levels_hz = latencies_ms(workers), dict(ideal.levels_hz)
        for cls in problem.classes:
            if rates_hz[cls.name] > 0:
                allowed_s = 1 / rates_hz[cls.name] - cls.action_s
                waited_s = 1 / loop_rate_hz(cls, latency) - cls.action_s
                for need in cls.goals:
                    levels_hz[cls.name, need.component] *= allowed_s / waited_s
        ideal = replace(ideal, levels_hz=levels_hz)
    return None
