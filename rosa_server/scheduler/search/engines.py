"""Which engine serves a model when its factory file says `engine: auto`: the one with which the best schedule is found.

All engines of a backend give the same answers. They differ in throughput and in the latency that they need for it, so
the SLOs decide: the measured engines are planned with one after the other (ActionFlow, Table 1, has the trade).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import DEFAULT_ENGINE, DEFAULT_ENGINES
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.min_servers import servers_needed
from rosa_server.scheduler.search.solve import solve

MIN_ENGINE_GAIN = 1.001  # of the objective: for less, the engine that comes first is kept


def candidates(problem: Problem, library: ProfileLibrary) -> list[Problem]:
    """The problem with every combination of measured engines; by itself where nothing is open.

    The backend's default comes first. Raises `ConfigError` for a missing profile.
    """
    measured = []
    for model in problem.open_engines:
        profile = library.get(model, problem.gpu_type)
        engines = {one.engine for one in profile.configurations if one.engine} or {DEFAULT_ENGINE}
        measured.append(sorted(engines, key=lambda engine: (engine not in DEFAULT_ENGINES, engine)))
    return [
        problem.with_engines(dict(zip(problem.open_engines, engines, strict=True)))
        for engines in product(*measured)
    ]


def with_best_engines(
    problem: Problem, library: ProfileLibrary, options: Options, clock: Callable[[], float] = lambda: 0.0
) -> Problem:
    """The candidate with the highest objective, equation (1). Where none is feasible it is the first, whose refusal
    says what stands in the way."""
    best, *others = candidates(problem, library)
    if not others:
        return best
    reached = solve(best, library, options, clock)
    for other in others:
        found = solve(other, library, options, clock)
        if found.feasible and (not reached.feasible or found.objective > MIN_ENGINE_GAIN * reached.objective):
            best, reached = other, found
    return best


def with_fewest_servers(problem: Problem, library: ProfileLibrary, options: Options) -> Problem:
    """The candidate that keeps every SLO and minimum rate with the fewest servers."""

    def needed(candidate: Problem) -> float:
        found = servers_needed(candidate, library, options)
        return found.servers if found is not None else float("inf")

    found = candidates(problem, library)
    return min(found, key=needed) if len(found) > 1 else found[0]
