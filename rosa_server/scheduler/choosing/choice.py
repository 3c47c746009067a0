"""Which schedule to carry out: the one with which the server's policies are predicted to get most out of the fleet.

Solvers maximise equation (1) at rates that hold for any arrivals. Policies exceed them by a different factor on each
placement, so the best schedule on paper need not be the best one to run. Candidates are the solver's schedule with a
server for each component, and the one in which components of one model may share servers; the better one may then
move servers from one model to another. Where that is asked for, or no schedule gives every server its own GPU,
models share GPUs and take turns on them.

Where none of these holds for any arrivals, or that promise is worth little and robots act much more often without it,
one may hold as the server lets robots call (`as_played.py`). What is refused after all says whether a lower bound
proves that nobody could serve it (`limit.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rosa_contract.config.policies import Policies
from rosa_server.scheduler.choosing.as_played import as_played, frees_servers
from rosa_server.scheduler.choosing.candidates import (
    Choice,
    compared,
    confirmed,
    with_or_without_sharing,
    with_shared_gpus,
)
from rosa_server.scheduler.choosing.limit import none_serves, servers_by_bound
from rosa_server.scheduler.choosing.parts import parts_of, repeated
from rosa_server.scheduler.choosing.prediction import MAX_SIMULATED
from rosa_server.scheduler.choosing.rebalancing import rebalanced
from rosa_server.scheduler.placement.schedule import Refusal, Schedule
from rosa_server.scheduler.placement.standby import with_standby
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import placement_of
from rosa_server.scheduler.running.policies import as_published, carried_out
from rosa_server.scheduler.search.refusal import refusals

# A schedule for any arrivals that promises no more than this share of what robots then do promises little. One for the
# planned robots alone is taken instead where it brings this factor on the objective, as it admits none beyond them.
LITTLE_PROMISED, MIN_PLAYED_GAIN = 0.2, 1.15


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
    return _in_parts(problem, library, options, policies, clock) or _whole(
        problem, library, options, policies, clock
    )


def _in_parts(
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    policies: Policies,
    clock: Callable[[], float],
) -> Choice | None:
    """A large fleet as equal parts; None where it is not large enough, or a part by itself cannot be served."""
    parts = None if as_published(policies) else parts_of(problem, options.standby)
    if parts is None:
        return None
    part = _whole(parts.part, library, replace(options, standby=0), policies, clock)
    if not part.schedule.feasible or part.schedule.shares_gpus:
        return None
    schedule = repeated(part.schedule, problem, parts)
    schedule = with_standby(schedule, problem, library, options.standby)
    schedule = replace(schedule, options={**options.changes(), **part.schedule.options})
    placement = carried_out(placement_of(schedule), schedule, problem, library, policies)
    hz = part.prediction.rates_hz
    prediction = replace(
        part.prediction, throughput_hz=problem.action_throughput_hz(hz), objective=problem.objective(hz)
    )
    return Choice(schedule, placement, prediction)


def _whole(
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    policies: Policies,
    clock: Callable[[], float],
) -> Choice:
    best = with_or_without_sharing(problem, library, options, policies, clock, explain=False)
    if (options.share_gpus or not best.schedule.feasible) and not as_published(policies):
        best = with_shared_gpus(best, problem, library, options, policies, clock)
        if best.schedule.shares_gpus:
            return confirmed(best, problem)
    if not best.schedule.feasible:
        return as_played(problem, library, options, policies, clock) or _refused(
            best, problem, library, options, policies
        )
    if not best.placement.adaptive:
        return best

    known: dict[int, Choice] = {}  # by the schedule's identity

    def objective(schedule: Schedule) -> float:
        choice = known[id(schedule)] = compared(schedule, problem, library, policies)
        return choice.prediction.objective

    highest = best.prediction.objective
    found = rebalanced(best.schedule, highest, objective, problem, library, options, clock)
    best = confirmed(known.get(id(found), best), problem)
    lowest = MIN_PLAYED_GAIN * best.prediction.objective
    little = best.schedule.objective <= LITTLE_PROMISED * best.prediction.objective
    if options.admission or not little or problem.robots > MAX_SIMULATED:
        return best
    if not frees_servers(problem, library, options):
        return best
    return as_played(problem, library, options, policies, clock, lowest) or best


def _refused(
    choice: Choice, problem: Problem, library: ProfileLibrary, options: Options, policies: Policies
) -> Choice:
    """With the reasons, and a word on whether anybody could serve this."""
    published = as_published(policies)
    sharing = options if published else replace(options, share_components=True)  # what needs fewest servers
    reasons = refusals(Catalog(problem, library, sharing), problem)
    if not published:
        reasons = (*reasons, _proof(problem, library))
    return replace(choice, schedule=replace(choice.schedule, reasons=reasons))


def _proof(problem: Problem, library: ProfileLibrary) -> Refusal:
    why = none_serves(problem, library)
    if why:
        return Refusal("none_serves", f"nobody could serve this: {why}, however they are placed and asked")
    busy = servers_by_bound(problem, library)
    words = (
        f"this refusal is not proved: periodic calls keep {busy:.1f} of {problem.servers} servers busy at least, so"
        " a way to serve it may exist that was not found"
    )
    return Refusal("not_proved", words)


def expected(schedule: Schedule, problem: Problem, library: ProfileLibrary, policies: Policies) -> Choice:
    """The predicted outcome of a schedule."""
    return confirmed(compared(schedule, problem, library, policies), problem)
