"""Which schedule to carry out: the one with which the server's policies are predicted to get most out of the fleet.

Solvers maximise equation (1) at rates that hold for any arrivals. Policies exceed them by a different factor on each
placement, so the best schedule on paper need not be the best one to run. Candidates are the solver's schedule with a
server for each component, and the one in which components of one model may share servers; the better one may then
move servers from one model to another. Where that is asked for, or no schedule gives every server a GPU of its own,
models share GPUs and take turns on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rosa_contract.config.policies import Policies
from rosa_server.plan.placement import Placement
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import placement_of
from rosa_server.scheduler.running.policies import as_published, carried_out
from rosa_server.scheduler.running.prediction import Prediction, estimated, predicted
from rosa_server.scheduler.running.rebalancing import rebalanced
from rosa_server.scheduler.search.shared_gpus import batches, solve_shared
from rosa_server.scheduler.search.solve import solve

WORTH_IT = 1.01  # sharing servers has to bring so many times the objective


@dataclass(frozen=True)
class Choice:
    """A schedule, or a refusal, with how it is carried out and what is expected to come of it."""

    schedule: Schedule
    placement: Placement
    prediction: Prediction


def choose(
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    policies: Policies,
    clock: Callable[[], float] = lambda: 0.0,
) -> Choice:
    """The schedule that `policies` carry out best. Raises `ConfigError` for missing or broken profiles.

    `clock` as for `solve`; each candidate may take the time budget.
    """
    best = _with_or_without_sharing(problem, library, options, policies, clock)
    if (options.share_gpus or not best.schedule.feasible) and not as_published(policies):
        best = _with_shared_gpus(best, problem, library, options, policies, clock)
        if best.schedule.shares_gpus:
            return _confirmed(best, problem)
    if not best.schedule.feasible or not best.placement.adaptive:
        return best

    def objective(schedule: Schedule) -> float:
        return _compared(schedule, problem, library, policies).prediction.objective

    most = best.prediction.objective
    found = rebalanced(best.schedule, most, objective, problem, library, options, clock)
    if found is best.schedule:
        return _confirmed(best, problem)
    return expected(found, problem, library, policies)


def _with_or_without_sharing(
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    policies: Policies,
    clock: Callable[[], float],
) -> Choice:
    best = _compared(solve(problem, library, options, clock), problem, library, policies)
    if options.share_components or as_published(policies):
        return best
    shared = solve(problem, library, replace(options, share_components=True), clock, apart=best.schedule)
    if not best.schedule.feasible:  # sharing needs fewer servers, so its refusal says more
        return _compared(shared, problem, library, policies)
    if shared.feasible and any(len(server.components) > 1 for server in shared.servers):
        other = _compared(shared, problem, library, policies)
        if _better(other, best):
            return other
    return best


def _with_shared_gpus(
    apart: Choice,
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    policies: Policies,
    clock: Callable[[], float],
) -> Choice:
    """The best of a schedule with a GPU for each server and of those in which models take turns."""
    best, seen = apart, set[tuple[int, ...]]()
    for largest in batches(problem):
        schedule = solve_shared(problem, library, options, clock, largest)
        if schedule is None or not schedule.shares_gpus:
            continue
        sizes = tuple(server.batch for server in schedule.servers)
        if sizes in seen:
            continue
        seen.add(sizes)
        other = _compared(schedule, problem, library, policies)
        if not best.schedule.feasible or _better(other, best):
            best = other
    return best


def expected(schedule: Schedule, problem: Problem, library: ProfileLibrary, policies: Policies) -> Choice:
    """The predicted outcome of a schedule."""
    return _confirmed(_compared(schedule, problem, library, policies), problem)


def _compared(schedule: Schedule, problem: Problem, library: ProfileLibrary, policies: Policies) -> Choice:
    """As `expected`, by the estimate that is fast enough for a search."""
    placement = placement_of(schedule)
    if schedule.feasible:
        placement = carried_out(placement, schedule, problem, library, policies)
    return Choice(schedule, placement, estimated(placement, schedule, problem))


def _confirmed(choice: Choice, problem: Problem) -> Choice:
    """With what the real serving core makes of it."""
    return replace(choice, prediction=predicted(choice.placement, choice.schedule, problem))


def _better(one: Choice, other: Choice) -> bool:
    return one.prediction.objective > WORTH_IT * other.prediction.objective
