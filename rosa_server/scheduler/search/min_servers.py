"""How far servers go: the fewest servers for given rates, and the rates that a number of servers reaches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rosa_server.scheduler.placement.obligations import goal_kinds, obligation_kinds, provision_obligations
from rosa_server.scheduler.placement.placement import fastest_rate_hz
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog, Options
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.search.feasibility import carry
from rosa_server.scheduler.search.impossible import floored, impossible
from rosa_server.scheduler.search.relaxation import least_servers, relax

STEPS = 10  # of a bisection over a share of the rates


@dataclass(frozen=True)
class Needed:
    """Servers that do, and servers below which nothing does: no schedule at all, whoever solves it."""

    servers: int
    least: int

    @property
    def proved(self) -> bool:
        return self.servers == self.least


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
        found = Needed(min(found.servers, apart.servers), min(found.least, apart.least))
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
        None if active is None else Needed(active.servers + options.standby, active.least + options.standby)
    )


def servers_for(catalog: Catalog, problem: Problem, rates_hz: Mapping[str, float]) -> Needed | None:
    """Active servers that carry these action rates; None when not even a server per stream does.

    Counting begins where the relaxation first has a solution, which proves that fewer do not do.
    """
    obligations = provision_obligations(catalog, problem)
    if obligations is None:
        return None
    kinds = goal_kinds(catalog, problem)
    most = 2 * problem.robots * len(kinds)

    def relaxed(servers: int) -> bool:
        return relax(catalog, problem, kinds, servers, rates_hz, ceilings_hz=rates_hz) is not None

    def carried(servers: int) -> bool:
        return carry(catalog, problem, kinds, rates_hz, servers) is not None

    least = _first(relaxed, len(kinds), most)
    found = None if least is None else _first(carried, least, most)
    if least is None or found is None:
        return None
    while found > least and carried(found - 1):  # more servers are not always better for a packing
        found -= 1
    fewest = sum(int(least_servers(catalog, problem, kind)) for kind in obligation_kinds(catalog, problem))
    return Needed(found + len(obligations), least + fewest)


def _first(enough: Callable[[int], bool], low: int, most: int) -> int | None:
    """The least number from `low` to `most` that is enough, if every larger one is; None when `most` is not."""
    step, high = 1, low
    while not enough(high):
        if high >= most:
            return None
        low, high, step = high + 1, min(most, high + step), 2 * step
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return high


def reachable_rates(catalog: Catalog, problem: Problem, servers: int) -> dict[str, float] | None:
    """One share of all minimum rates, the largest that `servers` active servers carry, each rate with two decimals.

    None when they carry none.
    """
    obligations = provision_obligations(catalog, problem)
    kinds = goal_kinds(catalog, problem)
    left = servers - len(obligations) if obligations is not None else 0

    def at(share: float) -> dict[str, float]:
        return {cls.name: float(floored(share * cls.min_rate_hz)) for cls in problem.classes}

    def carried(rates_hz: Mapping[str, float]) -> bool:
        return carry(catalog, problem, kinds, rates_hz, left) is not None

    if left < len(kinds) or not carried(at(0.0)):
        return None
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        share = (low + high) / 2
        if carried(at(share)):
            low = share
        else:
            high = share
    return at(low)
