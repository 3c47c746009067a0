"""Which longer SLOs would let a refused factory be served by the servers that it has."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import ceil

from rosa_server.scheduler.bisection import furthest
from rosa_server.scheduler.placement.schedule import Refusal
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.search.feasibility import is_served
from rosa_server.scheduler.search.impossible import impossible

MAX_LONGER = 8.0  # times: an SLO of another kind would be another factory
STEPS = 9  # of a bisection for the smallest factor that suffices


def longer_slos(catalog: Catalog, problem: Problem, servers: int) -> Refusal | None:
    """The SLOs that bind: those of as few components as possible, each by the same, smallest factor longer, so that
    `servers` active servers serve everybody. None where no such SLO helps.

    Components are taken out one after the other, those of a round first: their robots stand while they wait.
    """

    def served(factor: float, components: Collection[str]) -> bool:
        longer = stretched(problem, factor, components)
        return not impossible(catalog, longer) and is_served(catalog, longer, servers)

    needs = [need for cls in problem.classes for need in cls.needs]
    ordered = sorted(dict.fromkeys((not need.is_goal, need.component) for need in needs))
    binding = [component for _, component in ordered]
    if not served(MAX_LONGER, binding):
        return None
    for component in list(binding):
        fewer = [each for each in binding if each != component]
        if served(MAX_LONGER, fewer):
            binding = fewer
    if not binding:  # it fits as it is
        return None
    factor = furthest(lambda times: served(times, binding), MAX_LONGER, 1.0, STEPS)
    words = f"with SLOs {factor:.2g} times as long these servers are enough"
    return Refusal("longer_slos_fit", f"{words}: {', '.join(_named(problem, factor, binding))}")


def _named(problem: Problem, factor: float, components: Collection[str]) -> Iterator[str]:
    """The SLOs by component, and by task where it has different ones in several."""
    for component in components:
        of = {
            cls.name: need.slo_ms
            for cls in problem.classes
            for need in cls.needs
            if need.component == component
        }
        same = len(set(of.values())) == 1
        for task, slo_ms in list(of.items())[: 1 if same else None]:
            name = component if same else f"{task}.{component}"
            yield f"{name} {_longer_ms(slo_ms, factor):g} instead of {slo_ms:g} ms"


def stretched(problem: Problem, factor: float, components: Collection[str]) -> Problem:
    """The same factory with SLOs of these components `factor` times as long, rounded up to whole milliseconds."""
    classes = tuple(
        replace(
            cls,
            needs=tuple(
                replace(need, slo_ms=_longer_ms(need.slo_ms, factor))
                if need.component in components
                else need
                for need in cls.needs
            ),
        )
        for cls in problem.classes
    )
    return replace(problem, classes=classes)


def _longer_ms(slo_ms: float, factor: float) -> float:
    return float(ceil(slo_ms * factor - 1e-9))
