"""Schedules that are worth comparing: with a server for each component, with shared ones, with shared GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rosa_contract.config.policies import Policies
from rosa_server.plan.placement import Placement
from rosa_server.scheduler.choosing.prediction import Prediction, estimated, predicted
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import placement_of
from rosa_server.scheduler.running.policies import as_published, carried_out
from rosa_server.scheduler.search.shared_gpus import batches, solve_shared
from rosa_server.scheduler.search.solve import solve

MIN_SHARING_GAIN = 1.01  # factor on the objective that sharing servers has to bring


@dataclass(frozen=True)
class Choice:
    """A schedule, or a refusal, with how it is carried out and what is expected to come of it."""

    schedule: Schedule
    placement: Placement
    prediction: Prediction


def compared(schedule: Schedule, problem: Problem, library: ProfileLibrary, policies: Policies) -> Choice:
    """The outcome of a schedule by the estimate that is fast enough for a search."""
    placement = placement_of(schedule)
    if schedule.feasible:
        placement = carried_out(placement, schedule, problem, library, policies)
    return Choice(schedule, placement, estimated(placement, schedule, problem))


def confirmed(choice: Choice, problem: Problem) -> Choice:
    """With what the real serving core makes of it."""
    return replace(choice, prediction=predicted(choice.placement, choice.schedule, problem))


def with_or_without_sharing(
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    policies: Policies,
    clock: Callable[[], float],
    explain: bool = True,
) -> Choice:
    """The better one of a schedule with a server for each component and of one where components of a model share
    servers. `explain`: a refusal says why."""
    alone = options.share_components or as_published(policies)
    first = solve(problem, library, options, clock, explain=explain and alone)
    best = compared(first, problem, library, policies)
    if alone:
        return best
    sharing = replace(options, share_components=True)
    shared = solve(problem, library, sharing, clock, apart=best.schedule, explain=explain)
    if not best.schedule.feasible:  # sharing needs fewer servers, so its refusal says more
        return compared(shared, problem, library, policies)
    if shared.feasible and any(len(server.components) > 1 for server in shared.servers):
        other = compared(shared, problem, library, policies)
        if _better(other, best):
            return other
    return best


def with_shared_gpus(
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
        other = compared(schedule, problem, library, policies)
        if not best.schedule.feasible or _better(other, best):
            best = other
    return best


def _better(one: Choice, other: Choice) -> bool:
    return one.prediction.objective > MIN_SHARING_GAIN * other.prediction.objective
