"""How far servers go: the fewest servers for given rates, and the rates that a number of servers reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rosa_server.scheduler.catalog import Catalog, Options
from rosa_server.scheduler.homogeneous import place_at
from rosa_server.scheduler.library import ProfileLibrary
from rosa_server.scheduler.obligations import goal_kinds, provision_obligations
from rosa_server.scheduler.packing import Kind, Packer
from rosa_server.scheduler.placement import demands_of, fastest_rate_hz, place_goals
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.reasons import impossible

STEPS = 10  # of a bisection over a share of the rates


def servers_needed(
    problem: Problem, library: ProfileLibrary, options: Options | None = None, share_of_fastest: float = 0.0
) -> int | None:
    """Fewest servers for every SLO and minimum rate, or for `share_of_fastest` of every class's fastest rate.

    Standby comes on top. None when no number suffices.
    """
    options = options or Options()
    catalog = Catalog(problem, library, options)
    if impossible(catalog, problem):
        return None
    rates = {
        cls.name: max(cls.min_rate_hz, share_of_fastest * fastest_rate_hz(catalog, cls))
        for cls in problem.classes
    }
    active = servers_for(catalog, problem, rates)
    return None if active is None else active + options.standby


def servers_for(catalog: Catalog, problem: Problem, rates_hz: Mapping[str, float]) -> int | None:
    """Fewest active servers that carry these action rates; None when not even a server per stream does."""
    obligations = provision_obligations(catalog, problem)
    if obligations is None:
        return None
    kinds = goal_kinds(catalog, problem)
    least = sum(Packer(catalog, kind, demands_of(problem, kind, rates_hz)).least() for kind in kinds)
    most = 2 * problem.robots * len(kinds)
    if least > most:
        return None
    low = high = max(len(kinds), int(least))
    while not _carry(catalog, problem, kinds, rates_hz, high):
        if high >= most:
            return None
        low, high = high + 1, min(most, 2 * high)
    while low < high:
        middle = (low + high) // 2
        if _carry(catalog, problem, kinds, rates_hz, middle):
            high = middle
        else:
            low = middle + 1
    return high + len(obligations)


def reachable_share(catalog: Catalog, problem: Problem, servers: int) -> float | None:
    """The largest common share of the minimum rates that `servers` active servers carry; None when they carry none."""
    obligations = provision_obligations(catalog, problem)
    kinds = goal_kinds(catalog, problem)
    left = servers - len(obligations) if obligations is not None else 0
    floors = {cls.name: cls.min_rate_hz for cls in problem.classes}
    if left < len(kinds) or not _carry(catalog, problem, kinds, dict.fromkeys(floors, 0.0), left):
        return None
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        share = (low + high) / 2
        if _carry(catalog, problem, kinds, {name: share * rate for name, rate in floors.items()}, left):
            low = share
        else:
            high = share
    return low


def _carry(
    catalog: Catalog, problem: Problem, kinds: Sequence[Kind], rates_hz: Mapping[str, float], servers: int
) -> bool:
    """As the solvers decide it: by the ILP for one class, by packing for several."""
    cls = problem.classes[0]
    if len(problem.classes) == 1 and not catalog.options.share_components and rates_hz[cls.name] > 0:
        return place_at(catalog, cls, rates_hz[cls.name], servers) is not None
    return place_goals(catalog, problem, kinds, rates_hz, servers) is not None
