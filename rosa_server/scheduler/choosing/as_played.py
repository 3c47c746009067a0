"""Schedules whose SLOs hold as the server lets the planned robots call, though not whenever calls come.

Profiles know arrivals at random alone, whose p99 holds what seldom comes together. Robots come as the server's phases
and permits let them, so a factory that would be refused may still be served. Then schedules whose SLOs hold at a
lower percentile are played through with the real serving core, at the rates that were seen, and one with everything in
time is taken. It holds for the planned robots alone, so none is admitted beyond them. So a factory that a schedule for
any arrivals serves gets another one only where that promises little, where verdicts keep more servers for it than calls
that come evenly need, and where robots then act much more often (`choice.py`).

What holds by a hair on the network that was played does not on another one. So each schedule is played on slower
networks, too, and the first one that holds there is taken: of those that leave the SLOs as they are, then of those
that are planned as if the way were longer, which have more servers for what is tight. Where none does, it is the one
that keeps most of its calls in time there. Nobody is in time on a network that leaves less of an SLO than a call alone
takes: such a one decides nothing. The plan says how many calls are in time on each (`Prediction.slower`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf

from rosa_contract.config.policies import ADAPTIVE, GIVEN, Policies
from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1
from rosa_server.scheduler.bisection import furthest
from rosa_server.scheduler.choosing.candidates import (
    Choice,
    compared,
    with_or_without_sharing,
    with_shared_gpus,
)
from rosa_server.scheduler.choosing.limit import none_serves, ways
from rosa_server.scheduler.choosing.prediction import (
    MAX_LATE,
    NETWORK_MS,
    RELIED_ON_S,
    Prediction,
    played,
)
from rosa_server.scheduler.placement.obligations import provision_obligations
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.placement.servers import fastest_rate_hz
from rosa_server.scheduler.placement.to_schedule import component_rates, server_plan
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.profile import EVEN, FULL
from rosa_server.scheduler.running.deployment import deploy
from rosa_server.simulator.network import Network

USUAL = "p99"
MIN_HZ = 1e-3  # a robot that acts less often gets no service
# Percentiles at which SLOs hold for any arrivals, where they do not at the usual one.
LOWER = ("p95", "p90", "p50")
# And, where they are not in time at the solver's rates, at those with which all robots wait alike: a long wait ends in
# a call without permit, which is late. The solver gives least to tasks with the tightest SLOs.
BALANCED = (EVEN, "p50", FULL)
WAYS = (*((each, False) for each in LOWER), *((each, True) for each in BALANCED))
# Of what was seen, the next one where calls of a round are late: who calls at its rate, and not when it is told to, is
# late on a server that is full. How often each is halved until every server carries it.
BALANCED_SHARES, BALANCED_STEPS = (0.5, 0.25, 0.1), 4
MAX_WAIT_S, WAIT_STEPS = 30.0, 16
# Of the network there and back, ms: robots that are nearer may march in step. A schedule should also hold when it is
# slower by `SLOWER_MS`, and with `JITTER_MS` of jitter each way.
NEARER_MS, SLOWER_MS, JITTER_MS = 0.6, 10.0, 3.0
SHARE_STEP = 0.02  # shares in time that differ by less are alike; then the objective decides


@dataclass(frozen=True)
class _Held:
    """A schedule that holds on the networks that it is planned for, and what it does on slower ones."""

    choice: Choice
    slower: Mapping[str, float]  # component -> least share of its calls in time, on any of them
    lowest: float  # share of a component's calls, on those where all could be

    @property
    def holds(self) -> bool:
        return self.lowest >= 1 - MAX_LATE

    @property
    def worth(self) -> tuple[int, float]:
        """To compare schedules that do not hold there."""
        return int(self.lowest / SHARE_STEP), self.choice.prediction.objective


def as_played(
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    policies: Policies,
    clock: Callable[[], float],
    lowest: float = 0.0,
) -> Choice | None:
    """A schedule that keeps every SLO and minimum rate as it is carried out, though not for any arrivals. `lowest`: its
    objective, at least, where there is another schedule to take; it then has to hold on slower networks, too."""
    if policies.rates != ADAPTIVE or policies.phases != GIVEN or options.slo_statistic != USUAL:
        return None
    if none_serves(problem, library):
        return None
    network_ms, ends_s = max(2 * NETWORK_MS, options.network_ms), clock() + options.time_budget_s
    best: _Held | None = None
    for choice in _holding(problem, library, options, policies, clock, network_ms, lowest):
        found = _on_slower_networks(choice, problem, library, network_ms)
        if (not lowest or found.holds) and (best is None or found.holds or found.worth > best.worth):
            best = found
        if (best is not None and best.holds) or clock() > ends_s:
            break
    if best is None:
        return None
    return replace(best.choice, prediction=replace(best.choice.prediction, slower=best.slower))


def frees_servers(problem: Problem, library: ProfileLibrary, options: Options) -> bool:
    """Whether verdicts need fewer servers where they come evenly than for any arrivals."""

    def taken(statistic: str) -> float:
        catalog = Catalog(problem, library, replace(options, slo_statistic=statistic))
        found = provision_obligations(catalog, problem)
        return inf if found is None else len(found)

    return taken(EVEN) < taken(options.slo_statistic)


def _holding(
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    policies: Policies,
    clock: Callable[[], float],
    network_ms: float,
    lowest: float,
) -> Iterator[Choice]:
    """Schedules with this objective, at least, that hold as they are played through, here and on a nearer network."""
    for more_ms in (0.0, SLOWER_MS):
        for statistic, balanced in WAYS:
            lower = replace(
                options,
                slo_statistic=statistic,
                any_arrivals=False,
                network_ms=options.network_ms + more_ms,
            )
            found = _found(problem, library, lower, policies, clock)
            if found is not None and found.prediction.objective < lowest:
                continue
            seen = None if found is None else played(found.placement, problem, _way(network_ms))
            if found is not None and balanced and seen is not None and not seen.holds:
                unbalanced, full = found.schedule, seen
                for share in BALANCED_SHARES:
                    schedule = _balanced(unbalanced, problem, library, lower, full, share)
                    if schedule is None:
                        found = None
                        break
                    found = compared(schedule, problem, library, policies)
                    seen = played(found.placement, problem, _way(network_ms))
                    if seen is None or not seen.late or not seen.late <= set(GOAL_COUPLED):
                        break
            if found is None or seen is None or not seen.holds:
                continue
            found = compared(_at_rates(found.schedule, problem, seen), problem, library, policies)
            seen = played(found.placement, problem, _way(network_ms), RELIED_ON_S)  # phases follow from rates
            if seen is None or not seen.holds or not _acts(problem, seen) or seen.objective < lowest:
                continue
            nearer = played(found.placement, problem, _way(network_ms - NEARER_MS))
            if nearer is not None and nearer.holds:
                as_asked = {**found.schedule.options, "network_ms": options.network_ms}
                if not options.network_ms:
                    del as_asked["network_ms"]
                yield replace(found, schedule=replace(found.schedule, options=as_asked), prediction=seen)


def _found(
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    policies: Policies,
    clock: Callable[[], float],
) -> Choice | None:
    found = with_or_without_sharing(problem, library, options, policies, clock, explain=False)
    if not found.schedule.feasible:
        found = with_shared_gpus(found, problem, library, options, policies, clock)
    return found if found.schedule.feasible else None


def _way(network_ms: float) -> Network:
    """Each way of a network, there and back."""
    return Network(network_ms / 2)


def _slower(network_ms: float) -> tuple[Network, ...]:
    """Networks on which a schedule should hold, too. `network_ms`: of the planned one, there and back."""
    return _way(network_ms + SLOWER_MS), Network(network_ms / 2, JITTER_MS)


def _on_slower_networks(
    choice: Choice, problem: Problem, library: ProfileLibrary, network_ms: float
) -> _Held:
    """The schedule with what it does there."""
    slower: dict[str, float] = {}
    lowest = 1.0
    for network in _slower(network_ms):
        seen = played(choice.placement, problem, network)
        meet = {} if seen is None else seen.meet
        slower |= {component: min(share, slower.get(component, 1.0)) for component, share in meet.items()}
        if _may_hold(problem, library, network):
            lowest = min([lowest, *meet.values()])
    return _Held(choice, slower, lowest)


def _may_hold(problem: Problem, library: ProfileLibrary, network: Network) -> bool:
    """Whether every call would be in time there if it found an idle server."""
    max_s = 2 * (network.latency_ms + network.jitter_ms) / 1000
    fastest = ((need, ways(problem, library, need)[:1]) for need in problem.needs.values())
    return all(wait_s + max_s <= need.slo_ms / 1000 for need, first in fastest for wait_s, _ in first)


def _acts(problem: Problem, seen: Prediction) -> bool:
    """Whether the robots of each task act, and as often as they have to."""
    return all(seen.rates_hz[cls.name] >= max(cls.min_rate_hz, MIN_HZ) for cls in problem.classes)


def _balanced(
    schedule: Schedule,
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    seen: Prediction,
    share: float,
) -> Schedule | None:
    """The same placement at rates with which robots of every task wait alike, together `share` times as often as was
    seen, or less; None where its servers do not carry them."""
    shared = bool(schedule.options.get("share_components", False))
    catalog = Catalog(problem, library, replace(options, share_components=shared))
    fastest_hz = {cls.name: fastest_rate_hz(catalog, cls) for cls in problem.classes}

    def waiting(wait_s: float) -> dict[str, float]:
        return {task: 1 / (1 / hz + wait_s) for task, hz in fastest_hz.items()}

    def seen_at_most(wait_s: float) -> bool:
        return problem.action_throughput_hz(waiting(wait_s)) <= seen.throughput_hz

    alike_hz = waiting(furthest(seen_at_most, MAX_WAIT_S, 0.0, WAIT_STEPS))
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
