"""`rosa plan --exact`: the best schedule of a small factory, with a proof of how good it is (ours).

The search is in branching.py. Equation (1) is maximised as the paper has it, with `min_action_rate_hz` and without fair
shares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from ortools.linear_solver import pywraplp

from rosa_contract.errors import ConfigError
from rosa_server.scheduler.exact.branching import PROGRAM_S, Search
from rosa_server.scheduler.exact.mixes import Program, server_mixes
from rosa_server.scheduler.placement.obligations import obligation_kinds, provision_obligations
from rosa_server.scheduler.placement.pool import Pool, goal_kinds
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.placement.servers import PlacedServer, placed_servers
from rosa_server.scheduler.placement.standby import with_standby
from rosa_server.scheduler.placement.to_schedule import build_schedule
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.impossible import impossible
from rosa_server.scheduler.search.relaxation import min_servers
from rosa_server.scheduler.search.solve import solve

NAME = "exact"
MAX_SERVERS, MAX_CLASSES = 8, 4


@dataclass(frozen=True)
class ExactResult:
    """The best schedule found, and an upper bound on all others."""

    schedule: Schedule
    bound: float  # no schedule has a higher objective
    tolerance: float
    heuristic: float  # objective of the ordinary solver
    boxes: int
    seconds: float

    @property
    def gap(self) -> float:
        """How far the schedule may be below the best possible one, as a part of that."""
        return 1 - self.schedule.objective / self.bound if self.bound > 0 else 0.0

    @property
    def proved(self) -> bool:
        return self.bound <= self.schedule.objective * (1 + self.tolerance) * (1 + 1e-12)

    def in_words(self) -> str:
        """One line to print under a schedule."""
        known = "Proved within the tolerance" if self.proved else "Not proved in the time given"
        compared = "The heuristic finds no schedule."
        if self.heuristic:
            gained = self.schedule.objective / self.heuristic - 1
            compared = f"The heuristic reaches {self.heuristic:.2f}, this schedule {gained:.2%} more."
        return (
            f"{known}: at most {self.gap:.2%} below the best possible schedule; no schedule on these servers exceeds"
            f" {self.bound:.2f}. {compared} {self.boxes} boxes, {self.seconds:.1f} s."
        )


def solve_exact(
    problem: Problem,
    library: ProfileLibrary,
    options: Options | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> ExactResult:
    """The best schedule within `options.tolerance`.

    `clock`, seconds, ends the search after `options.time_budget_s`; without one it ends with a proof.

    Raises `ConfigError` where the factory is too large, or components are to share servers.
    """
    fair = options or Options()
    options = replace(fair, fair_share=0.0)
    begin = clock()
    _check(problem, options)
    catalog = Catalog(problem, library, options)
    goals = [server_mixes(problem, kind) for kind in goal_kinds(catalog, problem)]
    first = solve(problem, library, options, clock)
    if fair.fair_share > 0:  # with fair shares the heuristic sometimes ends higher; --exact must not be worse
        other = solve(problem, library, fair, clock)
        first = other if other.objective > first.objective else first
    obligations = None if impossible(catalog, problem) else fewest_obligations(catalog, problem)
    pool = Pool(catalog, problem, problem.servers - options.standby - len(obligations or []))
    if obligations is None or pool.servers < len(goals):
        return ExactResult(first, 0.0, options.tolerance, 0.0, 0, clock() - begin)
    search = Search(pool, goals, first.objective)
    if not first.feasible and not search.starts():
        return ExactResult(first, 0.0, options.tolerance, 0.0, 0, clock() - begin)
    bound = search.run(lambda: begin + options.time_budget_s - clock())
    schedule = replace(first, scheduler=NAME)
    if search.best is not None:
        rates, placed = search.best
        schedule = build_schedule(catalog, problem, [*placed, *obligations], rates, NAME)
        schedule = with_standby(schedule, problem, library, options.standby)
    schedule = replace(schedule, options=options.changes())
    return ExactResult(schedule, bound, options.tolerance, first.objective, search.boxes, clock() - begin)


def _check(problem: Problem, options: Options) -> None:
    wrong = []
    if problem.servers > MAX_SERVERS or len(problem.classes) > MAX_CLASSES:
        size = f"{problem.servers} servers and {len(problem.classes)} tasks"
        wrong.append(
            f"searches at most {MAX_SERVERS} servers and {MAX_CLASSES} tasks, got {size}; see --bound"
        )
    if options.share_components:
        # More load may make another batching the best one, which has less latency for one of the components.
        wrong.append(
            "cannot be combined with --share-components, where lower rates may have higher latencies; leave one out"
        )
    if wrong:
        raise ConfigError("--exact", wrong)


def fewest_obligations(catalog: Catalog, problem: Problem) -> list[PlacedServer] | None:
    """Obligations on the fewest servers possible; None when an SLO cannot be kept at all."""
    placed = provision_obligations(catalog, problem)
    if placed is None:
        return None
    for kind in obligation_kinds(catalog, problem):
        others = [server for server in placed if server.kind != kind]
        if len(placed) - len(others) > min_servers(catalog, problem, kind):
            program = Program(catalog, [server_mixes(problem, kind)], {}, inf)
            program.solver.Minimize(program.used)
            if program.solve(PROGRAM_S) == pywraplp.Solver.OPTIMAL:
                loads = [
                    mix.mixes.loads(mix.number, {}) for mix in program.chosen() for _ in range(mix.servers)
                ]
                placed = others + (placed_servers(catalog, kind, loads) or [])
    return placed
