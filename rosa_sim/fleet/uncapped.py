"""What robots do that send as fast as they can: a closed loop, in which each sends as soon as it has acted.

System 1, where they queue, is simulated as that loop from the profile's service times; the other components see a
known rate and use the profile's latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rosa_contract.config.tasks import SYSTEM1
from rosa_server.scheduler.placement.packing import ServerKind
from rosa_server.scheduler.placement.schedule import Refusal, Schedule, slot_name
from rosa_server.scheduler.placement.servers import PlacedServer, latencies_ms, loads_at
from rosa_server.scheduler.placement.to_schedule import build_schedule
from rosa_server.scheduler.problem import Problem, StreamClass
from rosa_server.scheduler.profiles.catalog import Assessment, Catalog, Load
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.profile import Configuration
from rosa_server.scheduler.profiles.queueing import closed_loop_latencies_ms

Placement = Sequence[tuple[ServerKind, list[Load]]]
ROUNDS, WARM_UP, JITTER = 60, 0.3, 0.03
ENDLESS_MS = 3_600_000.0


def uncapped(problem: Problem, library: ProfileLibrary, schedule: Schedule, options: Options) -> Schedule:
    """What a schedule's placement and batching do when robots ignore its rates (ROSA 4.3, "Request-rate control")."""
    catalog = Catalog(problem, library, options)
    placement: list[tuple[ServerKind, list[Load]]] = []
    batches = []
    for server in schedule.servers:
        if not server.standby:
            loads = [
                Load(*key, count, 0.0, problem.needs[key].slo_ms) for key, count in server.streams.items()
            ]
            placement.append((ServerKind(server.model, server.components), loads))
            batches.append((server.batching, server.batch))
    return closed_loop(catalog, problem, problem, placement, f"{schedule.scheduler}, uncapped", batches)


def closed_loop(
    catalog: Catalog,
    asked: Problem,
    problem: Problem,
    placement: Placement,
    name: str,
    batches: Sequence[tuple[str, int]] | None = None,
) -> Schedule:
    """The closed-loop prediction of a placement whose robots send as fast as they can."""
    if not problem.classes:
        words = (
            f"none of {asked.robots} robots is served: {asked.servers} servers are too few for one of them"
        )
        robots = {cls.name: cls.robots for cls in asked.classes}
        refusals = (Refusal("robots_not_served", words),)
        return Schedule(name, problem.gpu_type, False, robots=robots, capped=False, reasons=refusals)
    rates = {cls.name: 1 / cls.action_s for cls in problem.classes}
    servers: list[PlacedServer] = []
    for step in range(4):  # System 2 slows System 1's loop, which sets System 2's rate
        system2_ms = latencies_ms([each for each in servers if each.kind.components != (SYSTEM1,)])
        servers = []
        for index, (kind, loads) in enumerate(placement):
            choices = [c for part in kind.components[:1] for c in catalog.configurations(kind.model, part)]
            choice = next(
                (c for c in choices if batches and (c.batching, c.batch) == batches[index]), choices[0]
            )
            if kind.components == (SYSTEM1,):
                servers.append(_loop(catalog, problem, kind, loads, choice, system2_ms))
            else:
                servers.append(_open(catalog, problem, kind, loads, choice, rates))
        latency = latencies_ms(servers)
        for cls in problem.classes:
            keys = {need: StreamClass(cls.name, need.component) for need in cls.goals}
            wait = sum(need.calls_per_action * latency[key] for need, key in keys.items()) / 1000
            new = 1 / (cls.action_s + wait)
            rates[cls.name] = new if step == 0 else (rates[cls.name] + new) / 2
    servers = [replace(each, loads=loads_at(each.loads, problem.needs, rates)) for each in servers]
    missed = [
        f"{load.task}.{load.component}: {catalog.options.slo_statistic} {server.state.p99_ms[load.component]:.0f} ms"
        f" against slo_ms {load.slo_ms:g} at {server.state.utilisation:.0%} of the server's maximum"
        for server in servers
        for load in server.loads
        if server.state.p99_ms[load.component] > load.slo_ms
    ]
    reasons = [Refusal("slo_missed", words) for words in dict.fromkeys(missed)]
    lacking = asked.robots - problem.robots
    if lacking:
        words = f"{lacking} of {asked.robots} robots are not served: {asked.servers} servers are too few"
        reasons.append(Refusal("robots_not_served", words))
    schedule = build_schedule(catalog, problem, servers, rates, name)
    slots = [slot_name(cls.name, number) for cls in asked.classes for number in range(cls.robots)]
    return replace(
        schedule,
        capped=False,
        limits=(),
        feasible=not reasons,
        reasons=tuple(reasons),
        idle_servers=asked.servers - len(servers),
        routing={slot: schedule.routing.get(slot, {}) for slot in slots},
    )


def _loop(
    catalog: Catalog,
    problem: Problem,
    kind: ServerKind,
    loads: Sequence[Load],
    choice: Configuration,
    system2_ms: Mapping[StreamClass, float],
) -> PlacedServer:
    """A System 1 server in the closed loop of its robots."""
    classes = {cls.name: cls for cls in problem.classes}
    think: list[float] = []
    for load in loads:
        cls = classes[load.task]
        extra = sum(
            n.calls_per_action
            * system2_ms.get(
                StreamClass(cls.name, n.component), catalog.best_latency_ms(n.model, n.component)
            )
            for n in cls.goals
            if n.component != SYSTEM1
        )
        think += [1000 * cls.action_s + extra] * load.streams
    run_ms = next(s.ms for s in choice.service if s.size == choice.batch)
    values = closed_loop_latencies_ms(think, choice.batch, lambda _: run_ms, JITTER, ROUNDS, seed=len(think))
    values = values[int(len(values) * WARM_UP) :]
    mean, p99 = float(np.mean(values)), float(np.percentile(values, 99))
    rate = sum(1000 / (ms + mean) for ms in think)
    state = Assessment(
        choice, rate / choice.max_throughput_hz, {SYSTEM1: mean}, {SYSTEM1: mean}, {SYSTEM1: p99}
    )
    return PlacedServer(kind, tuple(loads), state)


def _open(
    catalog: Catalog,
    problem: Problem,
    kind: ServerKind,
    loads: Sequence[Load],
    choice: Configuration,
    rates: dict[str, float],
) -> PlacedServer:
    """A server of any other component at its rate, within the SLO or not."""
    component = kind.components[0]
    placed_loads = loads_at(loads, problem.needs, rates)
    total = sum(load.streams * load.rate_hz for load in placed_loads)
    known = min(total, choice.latency[-1].rate_hz)
    mean, p99 = choice.latency_ms("mean", known), choice.latency_ms(catalog.options.slo_statistic, known)
    if total > known:
        p99 = ENDLESS_MS  # periodic requests beyond the maximum pile up without end
    state = Assessment(
        choice, total / choice.max_throughput_hz, {component: mean}, {component: mean}, {component: p99}
    )
    return PlacedServer(kind, placed_loads, state)
