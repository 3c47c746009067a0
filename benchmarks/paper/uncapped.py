"""What robots do that send as fast as they can: a closed loop, in which each sends as soon as it has acted.

System 1, where they queue, is simulated as that loop from the profile's service times; the other components see a
known rate and use the profile's latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rosa_contract.config import SYSTEM1
from rosa_server.scheduler.placement.packing import Kind
from rosa_server.scheduler.placement.placement import Worker, latencies_ms
from rosa_server.scheduler.placement.to_schedule import build_schedule
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Assessment, Catalog, Load, Options
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.profile import Configuration
from rosa_server.scheduler.profiles.queueing import closed_loop_latencies_ms
from rosa_server.scheduler.schedule import Schedule

Bins = Sequence[tuple[Kind, list[Load]]]
ROUNDS, WARM_UP, JITTER = 60, 0.3, 0.03
ENDLESS_MS = 3_600_000.0


def uncapped(problem: Problem, library: ProfileLibrary, schedule: Schedule, options: Options) -> Schedule:
    """What a schedule's placement and batching do when robots ignore its rates (ROSA 4.3, "Request-rate control")."""
    catalog = Catalog(problem, library, options)
    needs = {(cls.name, need.component): need for cls in problem.classes for need in cls.needs}
    bins: list[tuple[Kind, list[Load]]] = []
    batches = []
    for server in schedule.servers:
        if not server.standby:
            loads = []
            for key, count in server.streams.items():
                task, component = key.rsplit("/", 1)
                loads.append(Load(task, component, count, 0.0, needs[(task, component)].slo_ms))
            bins.append((Kind(server.model, server.components), loads))
            batches.append((server.batching, server.batch))
    return closed_loop(catalog, problem, problem, bins, f"{schedule.scheduler}, uncapped", batches)


def closed_loop(
    catalog: Catalog,
    asked: Problem,
    problem: Problem,
    bins: Bins,
    name: str,
    batches: Sequence[tuple[str, int]] | None = None,
) -> Schedule:
    """The closed-loop prediction of a placement whose robots send as fast as they can."""
    if not problem.classes:
        reason = (
            f"not one of {asked.robots} robots is served: {asked.servers} servers are too few for one of them"
        )
        robots = {cls.name: cls.robots for cls in asked.classes}
        return Schedule(name, problem.gpu_type, False, robots=robots, capped=False, reasons=(reason,))
    rates = {cls.name: 1 / cls.action_s for cls in problem.classes}
    workers: list[Worker] = []
    for step in range(4):  # System 2 slows System 1's loop, which sets System 2's rate
        planning = latencies_ms([w for w in workers if w.kind.components != (SYSTEM1,)])
        workers = []
        for index, (kind, content) in enumerate(bins):
            choices = [c for part in kind.components[:1] for c in catalog.configurations(kind.model, part)]
            choice = next(
                (c for c in choices if batches and (c.batching, c.batch) == batches[index]), choices[0]
            )
            if kind.components == (SYSTEM1,):
                workers.append(_loop(catalog, problem, kind, content, choice, planning))
            else:
                workers.append(_open(catalog, problem, kind, content, choice, rates))
        latency = latencies_ms(workers)
        for cls in problem.classes:
            wait = sum(n.calls_per_action * latency[(cls.name, n.component)] for n in cls.goals) / 1000
            new = 1 / (cls.action_s + wait)
            rates[cls.name] = new if step == 0 else (rates[cls.name] + new) / 2
    workers = [replace(w, loads=tuple(_with_rates(problem, w.loads, rates))) for w in workers]
    problems = [
        f"{load.task}.{load.component}: {catalog.options.slo_statistic} {worker.state.p99_ms[load.component]:.0f} ms"
        f" against slo_ms {load.slo_ms:g} at {worker.state.utilisation:.0%} of the server's maximum"
        for worker in workers
        for load in worker.loads
        if worker.state.p99_ms[load.component] > load.slo_ms
    ]
    lacking = asked.robots - problem.robots
    if lacking:
        problems.append(
            f"{lacking} of {asked.robots} robots are not served: {asked.servers} servers are too few"
        )
    schedule = build_schedule(catalog, problem, workers, rates, name)
    everyone = [f"{c.name}/{i}" for c in asked.classes for i in range(c.robots)]
    return replace(
        schedule,
        capped=False,
        limits=(),
        feasible=not problems,
        reasons=tuple(dict.fromkeys(problems)),
        idle_servers=asked.servers - len(workers),
        routing={robot: schedule.routing.get(robot, {}) for robot in everyone},
    )


def _loop(
    catalog: Catalog,
    problem: Problem,
    kind: Kind,
    content: Sequence[Load],
    choice: Configuration,
    planning: dict[tuple[str, str], float],
) -> Worker:
    """A System 1 worker in the closed loop of its robots."""
    classes = {cls.name: cls for cls in problem.classes}
    think: list[float] = []
    for load in content:
        cls = classes[load.task]
        extra = sum(
            n.calls_per_action
            * planning.get((cls.name, n.component), catalog.best_latency_ms(n.model, n.component))
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
    return Worker(kind, tuple(content), state)


def _open(
    catalog: Catalog,
    problem: Problem,
    kind: Kind,
    content: Sequence[Load],
    choice: Configuration,
    rates: dict[str, float],
) -> Worker:
    """A worker of any other component at its rate, within the SLO or not."""
    component = kind.components[0]
    loads = _with_rates(problem, content, rates)
    total = sum(load.streams * load.rate_hz for load in loads)
    known = min(total, choice.latency[-1].rate_hz)
    mean, p99 = choice.latency_ms("mean", known), choice.latency_ms(catalog.options.slo_statistic, known)
    if total > known:
        p99 = ENDLESS_MS  # periodic requests beyond the maximum pile up without end
    state = Assessment(
        choice, total / choice.max_throughput_hz, {component: mean}, {component: mean}, {component: p99}
    )
    return Worker(kind, tuple(loads), state)


def _with_rates(problem: Problem, loads: Sequence[Load], rates: dict[str, float]) -> list[Load]:
    needs = {(cls.name, need.component): need for cls in problem.classes for need in cls.needs}
    return [
        replace(load, rate_hz=needs[(load.task, load.component)].rate_hz(rates[load.task])) for load in loads
    ]
