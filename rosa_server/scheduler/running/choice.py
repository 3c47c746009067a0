"""Which schedule to carry out: the one with which the server's policies are predicted to get most out of the fleet.

Solvers maximise equation (1) at rates that hold for any arrivals. Policies exceed them by a different factor on each
placement, so the best schedule on paper need not be the best one to run. Candidates are the solver's schedule with a
server for each component, and the one in which components of one model may share servers; the better one may then
move servers from one model to another. Where that is asked for, or no schedule gives every server a GPU of its own,
models share GPUs and take turns on them.

Profiles know arrivals at random alone, whose p99 holds what seldom comes together. Robots come as the server's phases
and permits let them, so a factory that would be refused may be served all the same. Then schedules whose SLOs hold at a
lower percentile are played through with the real serving core, and the first one with everything in time is taken, at
the rates that were seen. It holds for the planned robots alone, so none is admitted beyond them. What is refused after
all says whether a lower bound proves that nobody could serve it (`limit.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rosa_contract.config.policies import ADAPTIVE, GIVEN, Policies
from rosa_contract.config.tasks import SYSTEM1
from rosa_server.plan.placement import Placement
from rosa_server.scheduler.bisection import furthest
from rosa_server.scheduler.placement.schedule import Refusal, Schedule
from rosa_server.scheduler.placement.servers import fastest_rate_hz
from rosa_server.scheduler.placement.standby import with_standby
from rosa_server.scheduler.placement.to_schedule import component_rates, server_plan
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.profile import EVEN
from rosa_server.scheduler.running.deployment import deploy
from rosa_server.scheduler.running.handover import placement_of
from rosa_server.scheduler.running.limit import none_serves, servers_by_bound
from rosa_server.scheduler.running.parts import parts_of, repeated
from rosa_server.scheduler.running.policies import as_published, carried_out
from rosa_server.scheduler.running.prediction import NETWORK_MS, Prediction, estimated, played, predicted
from rosa_server.scheduler.running.rebalancing import rebalanced
from rosa_server.scheduler.search.shared_gpus import batches, solve_shared
from rosa_server.scheduler.search.solve import solve

MIN_SHARING_GAIN = 1.01  # factor on the objective that sharing servers has to bring
USUAL = "p99"
MIN_HZ = 1e-3  # a robot that acts less often gets no service
# Percentiles at which SLOs hold for any arrivals, where they do not at the usual one.
LOWER = ("p95", "p90", "p50")
# And, where that is not in time, at rates with which all robots wait alike: who waits long calls without a permit, and
# is late then. The solver gives least to tasks with the tightest SLOs.
BALANCED = (EVEN, "p50")
BALANCED_SHARE, BALANCED_STEPS = (
    0.5,
    4,
)  # of what was seen; how often it is halved until every server carries it
MAX_WAIT_S, WAIT_STEPS = 30.0, 16


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
    best = _with_or_without_sharing(problem, library, options, policies, clock)
    if (options.share_gpus or not best.schedule.feasible) and not as_published(policies):
        best = _with_shared_gpus(best, problem, library, options, policies, clock)
        if best.schedule.shares_gpus:
            return _confirmed(best, problem)
    if not best.schedule.feasible:
        return _as_played(problem, library, options, policies, clock) or _refused(
            best, problem, library, policies
        )
    if not best.placement.adaptive:
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


def _as_played(
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    policies: Policies,
    clock: Callable[[], float],
) -> Choice | None:
    """A schedule that keeps every SLO and minimum rate as it is carried out, though not for any arrivals."""
    if policies.rates != ADAPTIVE or policies.phases != GIVEN or options.slo_statistic != USUAL:
        return None
    network_ms = max(2 * NETWORK_MS, options.network_ms)
    for statistic, balanced in (*((each, False) for each in LOWER), *((each, True) for each in BALANCED)):
        lower = replace(options, slo_statistic=statistic, any_arrivals=False)
        found = _with_or_without_sharing(problem, library, lower, policies, clock)
        if not found.schedule.feasible:
            found = _with_shared_gpus(found, problem, library, lower, policies, clock)
        if not found.schedule.feasible:
            continue
        seen = played(found.placement, problem, network_ms)
        if balanced and seen is not None:
            schedule = _balanced(found.schedule, problem, library, lower, seen)
            if schedule is None:
                continue
            found = _compared(schedule, problem, library, policies)
            seen = played(found.placement, problem, network_ms)
        if seen is None or not seen.holds:
            continue
        found = _compared(_at_rates(found.schedule, problem, seen), problem, library, policies)
        seen = played(found.placement, problem, network_ms)  # phases follow from rates
        if seen is None or not seen.holds or not _acts(problem, seen):
            continue
        nearer = played(
            found.placement, problem, network_ms - 0.6 * 2 * NETWORK_MS
        )  # robots may march in step there
        if nearer is not None and nearer.holds:
            return _confirmed(found, problem)
    return None


def _refused(choice: Choice, problem: Problem, library: ProfileLibrary, policies: Policies) -> Choice:
    """With a word on whether anybody could serve this."""
    if as_published(policies):
        return choice
    why = none_serves(problem, library)
    if why:
        last = Refusal("none_serves", f"nobody could serve this: {why}, however they are placed and asked")
    else:
        busy = servers_by_bound(problem, library)
        words = (
            f"this refusal is not proved: periodic calls keep {busy:.1f} of {problem.servers} servers busy at least, so"
            " a way to serve it may exist that was not found"
        )
        last = Refusal("not_proved", words)
    return replace(choice, schedule=replace(choice.schedule, reasons=(*choice.schedule.reasons, last)))


def _acts(problem: Problem, seen: Prediction) -> bool:
    """Whether the robots of each task act, and as often as they have to."""
    return all(seen.rates_hz[cls.name] >= max(cls.min_rate_hz, MIN_HZ) for cls in problem.classes)


def _balanced(
    schedule: Schedule, problem: Problem, library: ProfileLibrary, options: Options, seen: Prediction
) -> Schedule | None:
    """The same placement at rates with which robots of every task wait alike, together half as often as was seen, or
    less; None where its servers do not carry them."""
    shared = bool(schedule.options.get("share_components", False))
    catalog = Catalog(problem, library, replace(options, share_components=shared))
    fastest_hz = {cls.name: fastest_rate_hz(catalog, cls) for cls in problem.classes}

    def waiting(wait_s: float) -> dict[str, float]:
        return {task: 1 / (1 / hz + wait_s) for task, hz in fastest_hz.items()}

    def seen_at_most(wait_s: float) -> bool:
        return problem.action_throughput_hz(waiting(wait_s)) <= seen.throughput_hz

    alike_hz = waiting(furthest(seen_at_most, MAX_WAIT_S, 0.0, WAIT_STEPS))
    share = BALANCED_SHARE
    for _ in range(BALANCED_STEPS):
        rates_hz = {cls.name: max(cls.min_rate_hz, share * alike_hz[cls.name]) for cls in problem.classes}
        found = replace(
            schedule,
            rates_hz=component_rates(problem, rates_hz),
            action_throughput_hz=problem.action_throughput_hz(rates_hz),
            objective=problem.objective(rates_hz),
            limits=(),
        )
        try:
            servers = deploy(problem, catalog, found).servers
        except ValueError:
            share /= 2
            continue
        if schedule.shares_gpus:  # they are played through, not looked up
            return found
        plans = [server_plan(one.id, servers[one.id]) if not one.standby else one for one in schedule.servers]
        return replace(found, servers=tuple(plans))
    return None


def _at_rates(schedule: Schedule, problem: Problem, seen: Prediction) -> Schedule:
    """The same placement at rates no higher than those that were seen."""
    rates_hz = {
        task: max(problem.by_name[task].min_rate_hz, min(rates[SYSTEM1], seen.rates_hz[task]))
        for task, rates in schedule.rates_hz.items()
    }
    return replace(
        schedule,
        rates_hz=component_rates(problem, rates_hz),
        action_throughput_hz=problem.action_throughput_hz(rates_hz),
        objective=problem.objective(rates_hz),
        limits=(),
    )


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
    return one.prediction.objective > MIN_SHARING_GAIN * other.prediction.objective
