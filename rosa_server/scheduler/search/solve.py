"""The scheduler's entry point: from a problem, profiles and options to a schedule, or to a refusal with its reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rosa_server.scheduler.placement.obligations import provision_obligations
from rosa_server.scheduler.placement.pool import Pool
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.placement.standby import with_standby
from rosa_server.scheduler.placement.to_schedule import build_schedule
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.fairness import Candidate
from rosa_server.scheduler.search.frontier import solve_heterogeneous
from rosa_server.scheduler.search.homogeneous import solve_homogeneous
from rosa_server.scheduler.search.impossible import impossible
from rosa_server.scheduler.search.refusal import refusals

NAME = "rosa"


def solve(
    problem: Problem,
    library: ProfileLibrary,
    options: Options | None = None,
    clock: Callable[[], float] = lambda: 0.0,
    *,
    apart: Schedule | None = None,
    explain: bool = True,
) -> Schedule:
    """The schedule of a factory (ROSA 3.4.1 to 3.4.3). Raises `ConfigError` only for missing or broken profiles.

    `clock`, seconds, ends the search after `options.time_budget_s`; without one the search takes the time it needs.
    `apart` is the schedule of the same factory without shared servers, where the caller has it already. `explain`: a
    refusal says why, which takes longer than finding that it is one.
    """
    options = options or Options()
    found = _solve(problem, library, options, clock)
    if options.share_components:  # sharing is allowed, not imposed
        apart = apart or _solve(problem, library, replace(options, share_components=False), clock)
        if apart.feasible and apart.objective > found.objective:
            found = apart
    if explain and not found.feasible:
        found = replace(found, reasons=refusals(Catalog(problem, library, options), problem))
    return replace(found, options=options.changes())


def _solve(
    problem: Problem, library: ProfileLibrary, options: Options, clock: Callable[[], float]
) -> Schedule:
    catalog = Catalog(problem, library, options)
    servers = problem.servers - options.standby
    obligations = None if impossible(catalog, problem) else provision_obligations(catalog, problem)
    if obligations is None or servers < 1:
        return _refused(problem)
    pool = Pool(catalog, problem, servers - len(obligations))
    found: Candidate | None = None
    if pool.servers >= len(pool.kinds):
        if len(problem.classes) == 1 and not options.share_components:
            found = solve_homogeneous(pool)
        else:
            found = solve_heterogeneous(pool, clock)
    if found is None:
        return _refused(problem)
    schedule = build_schedule(catalog, problem, [*found.placed, *obligations], found.rates_hz, NAME)
    return with_standby(schedule, problem, library, options.standby)


def _refused(problem: Problem) -> Schedule:
    return Schedule(NAME, problem.gpu_type, False, robots={cls.name: cls.robots for cls in problem.classes})
