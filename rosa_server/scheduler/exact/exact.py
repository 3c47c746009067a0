"""`rosa plan --exact`: the best schedule of a small factory, with what is proved about all others (ours).

The search is in branching.py. Equation (1) is maximised as the paper has it, with `min_action_rate_hz` and without fair
shares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]

from rosa_contract.errors import ConfigError
from rosa_server.scheduler.exact.branching import PROGRAM_S, Search
from rosa_server.scheduler.exact.contents import Program, contents_of
from rosa_server.scheduler.placement.obligations import goal_kinds, obligation_kinds, provision_obligations
from rosa_server.scheduler.placement.placement import Worker, workers_of
from rosa_server.scheduler.placement.standby import with_standby
from rosa_server.scheduler.placement.to_schedule import build_schedule
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog, Options
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.schedule import Schedule
from rosa_server.scheduler.search.impossible import impossible
from rosa_server.scheduler.search.relaxation import least_servers
from rosa_server.scheduler.search.solve import solve

NAME = "exact"
MOST_SERVERS, MOST_CLASSES = 8, 4


@dataclass(frozen=True)
class Exact:
    """The best schedule found, and what is known about all others."""

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
        """One line under a plan."""
        known = "Proved to its tolerance" if self.proved else "Not proved in the time given"
        beaten = "The heuristic finds none."
        if self.heuristic:
            gained = self.schedule.objective / self.heuristic - 1
            beaten = f"The heuristic reaches {self.heuristic:.2f}, this plan {gained:.2%} more."
        return (
            f"{known}: at most {self.gap:.2%} below the best possible schedule; none of these servers exceeds"
            f" {self.bound:.2f}. {beaten} {self.boxes} boxes, {self.seconds:.1f} s."
        )


def solve_exact(
    problem: Problem,
    library: ProfileLibrary,
    options: Options | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> Exact:
    """The best schedule within `options.tolerance`.

    `clock`, seconds, ends the search after `options.time_budget_s`; without one it ends with a proof.

    Raises `ConfigError` where the factory is too large, or components are to share workers.
    """
    fair = options or Options()
    options = replace(fair, fair_share=0.0)
    begin = clock()
    _check(problem, options)
    catalog = Catalog(problem, library, options)
    goals = [contents_of(problem, kind) for kind in goal_kinds(catalog, problem)]
    first = solve(problem, library, options, clock)
    if (
        fair.fair_share > 0
    ):  # held from one class the heuristic now and then ends higher: no plan is worse for --exact
        other = solve(problem, library, fair, clock)
        first = other if other.objective > first.objective else first
    obligations = None if impossible(catalog, problem) else fewest_obligations(catalog, problem)
    servers = problem.servers - options.standby - len(obligations or [])
    if obligations is None or servers < len(goals):
        return Exact(first, 0.0, options.tolerance, 0.0, 0, clock() - begin)
    search = Search(catalog, problem, goals, servers, first.objective)
    if not first.feasible and not search.starts():
        return Exact(first, 0.0, options.tolerance, 0.0, 0, clock() - begin)
    bound = search.run(lambda: begin + options.time_budget_s - clock())
    schedule = replace(first, scheduler=NAME)
    if search.best is not None:
        rates, workers = search.best
        schedule = build_schedule(catalog, problem, [*workers, *obligations], rates, NAME)
        schedule = with_standby(schedule, problem, library, options.standby)
    schedule = replace(schedule, options=options.changes())
    return Exact(schedule, bound, options.tolerance, first.objective, search.boxes, clock() - begin)


def _check(problem: Problem, options: Options) -> None:
    wrong = []
    if problem.servers > MOST_SERVERS or len(problem.classes) > MOST_CLASSES:
        size = f"{problem.servers} servers and {len(problem.classes)} tasks"
        wrong.append(
            f"searches at most {MOST_SERVERS} servers and {MOST_CLASSES} tasks, got {size}; see --bound"
        )
    if options.share_components:
        # with more load another batching may be the best one, and have less latency for one of the components
        wrong.append(
            "does not go with --share-components: rates would not be closed downwards; leave one out"
        )
    if wrong:
        raise ConfigError("--exact", wrong)


def fewest_obligations(catalog: Catalog, problem: Problem) -> list[Worker] | None:
    """Obligations on the fewest servers possible; None when an SLO cannot be kept at all."""
    workers = provision_obligations(catalog, problem)
    if workers is None:
        return None
    for kind in obligation_kinds(catalog, problem):
        others = [worker for worker in workers if worker.kind != kind]
        if len(workers) - len(others) > least_servers(catalog, problem, kind):
            program = Program(catalog, [contents_of(problem, kind)], {}, inf)
            program.solver.Minimize(program.used)
            if program.solve(PROGRAM_S) == pywraplp.Solver.OPTIMAL:
                bins = [c.bin(index, {}) for c, index, number in program.held() for _ in range(number)]
                workers = others + (workers_of(catalog, kind, bins) or [])
    return workers
