"""The fewest servers for given rates, and the rates that a number of servers reaches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rosa_server.scheduler.bisection import furthest
from rosa_server.scheduler.placement.obligations import obligation_kinds, provision_obligations
from rosa_server.scheduler.placement.pool import Pool, goal_kinds
from rosa_server.scheduler.placement.servers import fastest_rate_hz
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.feasibility import place_at_rates
from rosa_server.scheduler.search.impossible import floored, impossible
from rosa_server.scheduler.search.relaxation import min_servers, relax

STEPS = 10  # of a bisection over a share of the rates


@dataclass(frozen=True)
class Needed:
    """How many servers suffice, and how many are proved to be necessary."""

    servers: int  # a schedule was found for these
    lowest: int  # with fewer no schedule exists

    @property
    def proved(self) -> bool:
        return self.servers == self.lowest


def servers_needed(
    problem: Problem, library: ProfileLibrary, options: Options | None = None, share_of_fastest: float = 0.0
) -> Needed | None:
    """Servers for every SLO and minimum rate, or for `share_of_fastest` of every class's fastest rate.

    Standby comes on top. None when no number suffices.
    """
    options = options or Options()
    found = _needed(problem, library, options, share_of_fastest)
    if options.share_components:  # sharing is allowed, not imposed
        apart = _needed(problem, library, replace(options, share_components=False), share_of_fastest)
        if found is None or apart is None:
            return found or apart
        found = Needed(min(found.servers, apart.servers), min(found.lowest, apart.lowest))
    return found


def _needed(
    problem: Problem, library: ProfileLibrary, options: Options, share_of_fastest: float
) -> Needed | None:
    """The same with components shared, or all of them apart, as `options` say."""
    catalog = Catalog(problem, library, options)
    if impossible(catalog, problem):
        return None
    rates = {
        cls.name: max(cls.min_rate_hz, share_of_fastest * fastest_rate_hz(catalog, cls))
        for cls in problem.classes
    }
    active = servers_for(catalog, problem, rates)
    return (
        None if active is None else Needed(active.servers + options.standby, active.lowest + options.standby)
    )


def servers_for(catalog: Catalog, problem: Problem, rates_hz: Mapping[str, float]) -> Needed | None:
    """Active servers that carry these action rates; None when not even a server per stream does.

    Counting begins where the relaxation first has a solution, which proves that fewer are not enough.
    """
    obligations = provision_obligations(catalog, problem)
    if obligations is None:
        return None
    kinds = goal_kinds(catalog, problem)
    highest = 2 * problem.robots * len(kinds)

    def relaxed(servers: int) -> bool:
        return relax(Pool(catalog, problem, servers), rates_hz, ceilings_hz=rates_hz) is not None

    def carried(servers: int) -> bool:
        return place_at_rates(Pool(catalog, problem, servers), rates_hz) is not None

    lowest = _first(relaxed, len(kinds), highest)
    found = None if lowest is None else _first(carried, lowest, highest)
    if lowest is None or found is None:
        return None
    while found > lowest and carried(found - 1):  # more servers are not always better for a packing
        found -= 1
    fewest = sum(int(min_servers(catalog, problem, kind)) for kind in obligation_kinds(catalog, problem))
    return Needed(found + len(obligations), lowest + fewest)


def _first(enough: Callable[[int], bool], low: int, highest: int) -> int | None:
    """The least number from `low` to `highest` that is enough, if every larger one is; None when `highest` is not."""
    step, high = 1, low
    while not enough(high):
        if high >= highest:
            return None
        low, high, step = high + 1, min(highest, high + step), 2 * step
    return low + bisect_left(range(low, high), True, key=enough)


def reachable_rates(catalog: Catalog, problem: Problem, servers: int) -> dict[str, float] | None:
    """One share of all minimum rates, the largest that `servers` active servers carry, each rate with two decimals.

    None when they carry none.
    """
    obligations = provision_obligations(catalog, problem)
    if obligations is None:
        return None
    pool = Pool(catalog, problem, servers - len(obligations))

    def rates_at(share: float) -> dict[str, float]:
        return {cls.name: float(floored(share * cls.min_rate_hz)) for cls in problem.classes}

    def carried(share: float) -> bool:
        return place_at_rates(pool, rates_at(share)) is not None

    if pool.servers < len(pool.kinds) or not carried(0.0):
        return None
    return rates_at(furthest(carried, 0.0, 1.0, STEPS))
