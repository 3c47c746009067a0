"""How a schedule is carried out: which servers share a queue, and when calls come.

`batch_sizes.py` says how many of them run together. The schedule promises what holds for any arrivals. Within it the
server may do better: what is decided here changes no placement, no route and no rate. A slot keeps its server as
placed, for admission and failover.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isclose
from typing import Any

from rosa_contract.config.policies import ADAPTIVE, GIVEN, PLANNED, PUBLISHED, SHARED, Policies
from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1
from rosa_server.plan.engines import SHARING_ENGINE
from rosa_server.plan.placement import Phase, Placement, Replica
from rosa_server.scheduler.placement.schedule import Schedule, ServerPlan, task_of
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.decoding import cost_of
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.profile import CONTINUOUS, IN_TURN
from rosa_server.scheduler.running.batch_sizes import (
    calls_at_once,
    idle_system1_s,
    largest_batch,
    prefills_ms,
    reserved_places,
    rest_of_round_s,
    service_table,
)
from rosa_server.scheduler.running.calendar import offsets_s
from rosa_server.timing.batches import BatchProfile

MAX_RAMP_S = 8.0  # no robot waits longer for its first call
GOLDEN = (5**0.5 - 1) / 2
# Servers that are alike: model, components, batching, and how many calls at a time their SLOs allow, where that counts.
Group = tuple[str, tuple[str, ...], str, int]


def carried_out(
    placement: Placement, schedule: Schedule, problem: Problem, library: ProfileLibrary, policies: Policies
) -> Placement:
    """The placement of a schedule as `policies` has it served."""
    if as_published(policies):
        return replace(
            placement,
            replicas=_published_replicas(placement, schedule, policies),
            catch_up=policies.catch_up,
        )
    asks = policies.rates == ADAPTIVE
    replicas = dict(placement.replicas)
    for (model, components, batching, places), servers in _groups(
        problem, schedule, library, policies
    ).items():
        changes: dict[str, Any] = {}
        table = service_table(library, schedule.gpu_type, model, components)
        changes["service_ms"], changes["padded"] = _times_ms(table), table.padded
        changes["decoding"] = cost_of(library.measured(model, schedule.gpu_type).decoding)
        if len(components) > 1 and policies.continuous and batching == CONTINUOUS:
            changes["mixed_ms"] = {
                component: _times_ms(service_table(library, schedule.gpu_type, model, (component,)))
                for component in components
            }
        if policies.queues == SHARED and len(servers) > 1:
            changes["pool"] = f"{model} {'+'.join(components)}" + (f" {places}" if places else "")
        if SYSTEM1 in components and batching != CONTINUOUS:
            if policies.batches == ADAPTIVE:
                changes["batch"] = largest_batch(problem, model, len(servers), table, library, asks)[0]
                changes["deadline_aware"], changes["waits"] = True, False
        elif policies.continuous:
            at_once = policies.at_once or calls_at_once(problem, schedule, servers, library)
            changes["at_once"] = at_once
            changes["prefill_ms"] = prefills_ms(library, schedule.gpu_type, model, components)
            changes["reserved"] = reserved_places(problem, schedule, servers, library, at_once)
        streams = [stream for server in servers for stream in server.streams]
        changes["permits"] = asks and any(stream.component in GOAL_COUPLED for stream in streams)
        for server in servers:
            replicas[server.id] = replace(replicas[server.id], **changes)
    replicas |= _turns(replicas, schedule, library, asks)
    phases = _phases(placement, problem, library) if policies.phases == GIVEN else {}
    if phases and _comes_in_turn(schedule):
        phases = _one_after_the_other(phases, replace(placement, replicas=replicas), problem)
    return replace(
        placement,
        replicas=replicas,
        phases=phases,
        catch_up=policies.catch_up,
        adaptive=policies.rates != PLANNED,
    )


def as_published(policies: Policies) -> bool:
    """Whether a schedule is carried out as in the paper: by its own routes, batches and rates alone. How many calls run
    at a time, and what a late robot makes up for, the paper leaves open."""
    return policies == replace(
        PUBLISHED, continuous=policies.continuous, at_once=policies.at_once, catch_up=policies.catch_up
    )


def _published_replicas(placement: Placement, schedule: Schedule, policies: Policies) -> dict[str, Replica]:
    """Each server is planned with one batching configuration; calls of one that batches continuously come and go."""
    if not policies.continuous:
        return dict(placement.replicas)
    continuous = {s.id: s.batch for s in schedule.servers if s.batching == CONTINUOUS and not s.standby}
    return {
        name: replace(replica, at_once=policies.at_once or continuous[replica.server])
        if replica.server in continuous
        else replica
        for name, replica in placement.replicas.items()
    }


def _turns(
    replicas: Mapping[str, Replica],
    schedule: Schedule,
    library: ProfileLibrary,
    asks: bool,
) -> dict[str, Replica]:
    """The replicas that share their GPUs. Each has its own queue and runs whole batches as planned, whose times
    are known: so is what a call may wait for at most while another model has its turn."""
    found = {}
    for server in schedule.servers:
        if not server.gpu:
            continue
        times = service_table(library, schedule.gpu_type, server.model, server.components)
        found[server.id] = replace(
            replicas[server.id],
            service_ms=_times_ms(times),
            padded=times.padded,
            decoding=cost_of(library.measured(server.model, schedule.gpu_type).decoding),
            permits=asks and any(stream.component in GOAL_COUPLED for stream in server.streams),
        )
    longest_ms = {name: 1000 * one.times.service_s(one.batch or 1) for name, one in found.items()}

    def blocked_ms(name: str, one: Replica) -> float:
        return max(
            ms for other, ms in longest_ms.items() if found[other].server == one.server and other != name
        )

    return {
        name: replace(one, always_asks=True)
        if one.permits and not schedule.holds_for_any_arrivals
        else replace(one, blocked_ms=blocked_ms(name, one))
        for name, one in found.items()
    }


def _groups(
    problem: Problem, schedule: Schedule, library: ProfileLibrary, policies: Policies
) -> dict[Group, list[ServerPlan]]:
    """Servers that are alike. Those of a model that batches continuously are, whatever they answer, once one of them
    answers several components: then each of them may run any call.

    Where calls come one after the other, servers with verdicts that are due soon have a queue apart from those whose
    verdicts may run beside many others: one queue for both would run no more of any at a time than the former allow.
    """
    active = [s for s in schedule.servers if not s.standby and not s.gpu and len(s.models) == 1]
    answers: dict[str, dict[str, None]] = {}  # model -> its components, where one server answers several
    if policies.queues == SHARED and policies.continuous:
        for server in active:
            if len(server.components) > 1 and server.batching == CONTINUOUS:
                answers[server.model] = {}
    for server in active:
        if server.model in answers:
            answers[server.model].update(dict.fromkeys(server.components))
    groups: dict[Group, list[ServerPlan]] = {}
    for server in active:
        components = tuple(answers.get(server.model, server.components))
        goals = any(problem.needs[stream].is_goal for stream in server.streams)
        places = 0
        if _comes_in_turn(schedule) and server.batching == CONTINUOUS and server.streams and not goals:
            places = calls_at_once(problem, schedule, [server], library)
        groups.setdefault((server.model, components, server.batching, places), []).append(server)
    return groups


def _comes_in_turn(schedule: Schedule) -> bool:
    """Whether a schedule holds for calls that come one after the other."""
    return schedule.options.get("slo_statistic") in IN_TURN


def _times_ms(table: BatchProfile) -> dict[int, float]:
    return {size: table.service_s(size) * 1000 for size in table.sizes}


def _phases(placement: Placement, problem: Problem, library: ProfileLibrary) -> dict[str, dict[str, Phase]]:
    """Slot -> component -> when its calls are due. Multiples of the golden ratio: any number of robots is spread
    evenly, whichever of them are there. Obligations that share what is seen are due together (`due_together`)."""
    found: dict[str, dict[str, Phase]] = {}
    periods_s = {cls.name: _periods_s(placement, problem, cls, library) for cls in problem.classes}
    sharing = {cls.name for cls in problem.classes if _sharing(cls)}
    for number, slot in enumerate(placement.routes or ()):
        share, task = number * GOLDEN % 1.0, task_of(slot)
        found[slot] = {
            component: Phase(each_s, share * each_s) for component, each_s in periods_s[task].items()
        }
        if task in sharing:
            found[slot].update(due_together(problem.by_name[task], number, share))
    return found


def _one_after_the_other(
    phases: dict[str, dict[str, Phase]], placement: Placement, problem: Problem
) -> dict[str, dict[str, Phase]]:
    """With periodic calls due so that few are open at a time in each queue, or on each GPU of several models."""
    calls: dict[str, list[tuple[str, str, float]]] = {}  # queue or GPU -> slot, component, how long one takes
    for slot, routes in (placement.routes or {}).items():
        for need in problem.by_name[task_of(slot)].obligations:
            replica = placement.replicas[routes[need.component]]
            times = BatchProfile(replica.mixed_ms.get(need.component, replica.service_ms))
            where = replica.server if replica.takes_turns else replica.queue
            calls.setdefault(where, []).append((slot, need.component, times.service_s(1)))
    found = {slot: dict(each) for slot, each in phases.items()}
    for each in calls.values():
        periods_s = [found[slot][component].period_s for slot, component, _ in each]
        offsets = offsets_s(periods_s, [takes_s for _, _, takes_s in each])
        for (slot, component, _), period_s, offset_s in zip(each, periods_s, offsets, strict=True):
            found[slot][component] = Phase(period_s, offset_s)
    return found


def _periods_s(
    placement: Placement, problem: Problem, cls: TaskClass, library: ProfileLibrary
) -> dict[str, float]:
    """Component -> time between its calls, for those of a class that have phases."""
    periods_s = {need.component: need.every_s for need in cls.obligations}
    # System 2, or System 1 where there is none. Robots begin within a round as planned, since they are held to that
    # until servers are known to have room.
    first = min(cls.goals, key=lambda need: need.calls_per_action)
    planned_hz = placement.rates_hz.get(cls.name, {}).get(first.component, 0.0)
    fastest_s = cls.action_s + rest_of_round_s(problem, cls, library) + idle_system1_s(problem, cls, library)
    period_s = 1 / planned_hz if planned_hz > 0 else fastest_s / first.calls_per_action
    periods_s[first.component] = min(MAX_RAMP_S, period_s)
    return periods_s


def _sharing(cls: TaskClass) -> list[Need]:
    """Its obligations whose model shares what is seen."""
    return [need for need in cls.obligations if need.engine == SHARING_ENGINE]


def due_together(cls: TaskClass, number: int, share: float) -> dict[str, Phase]:
    """Phases of obligations whose model shares an observation's prefix: the slower ones are due when the fastest is,
    so that their calls leave the robot together and the model looks once (OxyGen 3.3).

    Only whole multiples of the fastest period can be. Of n turns of the fastest, robots take different ones.
    """
    models: dict[str, list[Need]] = {}
    for need in _sharing(cls):
        models.setdefault(need.model, []).append(need)
    found = {}
    for needs in models.values():
        fastest_s = min(need.every_s for need in needs)
        for need in needs:
            turns = round(need.every_s / fastest_s)
            if isclose(turns * fastest_s, need.every_s, rel_tol=1e-9):
                offset_s = (share + number % turns) * fastest_s
                found[need.component] = Phase(need.every_s, offset_s)
    return found
