"""Rates that admission lowered rise again when there is room, on the placement and the routes that are there.

Rates rise towards the planned ones and no further: a schedule weighs the classes against each other, and room beyond it
is for the next schedule to share out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rosa_server.scheduler.bisection import bisect
from rosa_server.scheduler.placement.raising import FixedPlacement, OperatingPoint
from rosa_server.scheduler.running.deployment import Deployment, Servers, at_new_rates

FIRST = 1.01  # a class that cannot rise by this factor is left alone
STEPS = 4  # of bisection between this and the most it may have
ENOUGH = 40  # servers assessed: in a large factory one class may rise at a change, in a small one all


def raised(deployment: Deployment, servers: Servers) -> tuple[dict[str, float], Servers]:
    """Rates from the current ones up to the planned ones, as SLOs and equation (4) allow, and the servers under them.

    All planned rates at once if they fit, as they do when only planned robots are left, where they were planned. Else
    class by class, the one that has lost most of its planned rate first, until that was work enough: the gateway waits.
    `servers` are those of the deployment after a change, at its rates.
    """
    promised, rates = deployment.promise.rates_hz, deployment.rates_hz
    lost = {
        cls.name: rates[cls.name] / promised[cls.name]
        for cls in deployment.problem.classes
        if cls.robots and rates[cls.name] < promised[cls.name] * (1 - 1e-6)
    }
    if not lost:
        return rates, servers
    fixed = FixedPlacement(deployment.catalog, deployment.problem, list(servers.values()), rates)
    higher = _higher(fixed, promised, sorted(lost, key=lambda name: lost[name]))
    risen = {name for name in lost if higher[name] > rates[name]}
    return higher, servers | at_new_rates(deployment, servers, higher, risen)


def _higher(
    fixed: FixedPlacement, promised_hz: Mapping[str, float], names: Sequence[str]
) -> dict[str, float]:
    """Rates after raising these classes, all of them to the planned rates or one after the other."""
    at_once = fixed.raised({name: promised_hz[name] for name in names}, fixed.start)
    if at_once is not None:
        return at_once.rates_hz
    point = fixed.start
    for name in names:
        point = _towards(fixed, name, promised_hz[name], point)
        if point is not fixed.start and fixed.assessed > ENOUGH:
            break
    return point.rates_hz


def _towards(fixed: FixedPlacement, name: str, max_hz: float, start: OperatingPoint) -> OperatingPoint:
    """One class as near to a rate as possible."""
    low = min(max_hz, FIRST * start.rates_hz[name])
    first = fixed.raised({name: low}, start)
    if first is None:
        return start
    if low == max_hz:
        return first
    whole = fixed.raised({name: max_hz}, first)
    if whole is not None:
        return whole
    high = min(max_hz, fixed.limit_hz(name, first))
    return bisect(lambda rate_hz: fixed.raised({name: rate_hz}, first), low, high, first, STEPS)[1]
