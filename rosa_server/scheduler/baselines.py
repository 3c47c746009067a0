"""The paper's baselines (ROSA 4.1) behind the scheduler's interface. None of them caps the robots' request rates.

Uncapped robots form a closed loop: each sends as soon as it has acted. System 1, where they queue, is simulated as
that closed loop from the profile's service times; the other components see a known rate and use the profile's latency.
A schedule whose latency breaks an SLO is reported as not feasible, with the SLO that breaks, and keeps its placement:
its actions are not SLO-qualified, as in section 4.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from rosa_contract.config import SYSTEM1
from rosa_server.scheduler.build import build_schedule
from rosa_server.scheduler.catalog import Assessment, Catalog, Load, Options
from rosa_server.scheduler.library import ProfileLibrary
from rosa_server.scheduler.packing import Kind, balanced
from rosa_server.scheduler.placement import Worker, demands_of, kinds_of, latencies_ms
from rosa_server.scheduler.problem import Problem, TaskClass
from rosa_server.scheduler.profiles import Configuration
from rosa_server.scheduler.queueing import closed_loop_latencies_ms
from rosa_server.scheduler.schedule import Schedule, ServerPlan

Bins = Sequence[tuple[Kind, list[Load]]]
ROUNDS, WARM_UP, JITTER = 60, 0.3, 0.03
ENDLESS_MS = 3_600_000.0


def solve_baseline(problem: Problem, library: ProfileLibrary, name: str) -> Schedule:
    """The schedule of one of `BASELINES`; batch size one for System 1, continuous batching for the others."""
    catalog = Catalog(problem, library, Options(batch_sizes=(1,)))
    return BASELINES[name](catalog, problem, name)


def model_size(kind: Kind) -> float:
    """Billions of parameters as the model's name says (`-7B-`), else 1."""
    found = re.search(r"(\d+(?:\.\d+)?)B(?![a-z])", kind.model)
    return float(found.group(1)) if found else 1.0


# Partition -> what servers are divided by.
WEIGHTS: dict[str, Callable[[Kind], float]] = {
    "equal_partition": lambda kind: 1.0,
    "weighted_partition": model_size,
}


def partition_counts(kinds: Sequence[Kind], servers: int, weight: Callable[[Kind], float]) -> dict[Kind, int]:
    """Servers of each kind in proportion to `weight`, at least one each; `servers` must suffice for that."""
    total = sum(weight(kind) for kind in kinds)
    exact = {kind: servers * weight(kind) / total for kind in kinds}
    counts = dict.fromkeys(kinds, 1)
    for _ in range(servers - len(kinds)):
        counts[max(kinds, key=lambda kind: exact[kind] - counts[kind])] += 1
    return counts


def equal_partition(catalog: Catalog, problem: Problem, name: str) -> Schedule:
    """Baseline 3: the same number of GPUs for every model component."""
    return _partition(catalog, problem, name)


def weighted_partition(catalog: Catalog, problem: Problem, name: str) -> Schedule:
    """Baseline 4: GPUs in proportion to model sizes."""
    return _partition(catalog, problem, name)


def gpu_per_model(catalog: Catalog, problem: Problem, name: str) -> Schedule:
    """Baseline 2: every robot has a GPU for each of its models; robots beyond that are not served."""
    small = _first_served(problem, lambda cls: len(cls.needs))
    return _uncapped(catalog, problem, small, _own_workers(small), name)


def gpu_per_robot(catalog: Catalog, problem: Problem, name: str) -> Schedule:
    """Baseline 1: every robot has one GPU that runs all of its models.

    The models take turns on the GPU: a request may wait for one request of each other model, so a component's
    latency at the percentile grows by the longest answer among the others.
    """
    small = _first_served(problem, lambda cls: 1)
    schedule = _uncapped(catalog, problem, small, _own_workers(small), name)
    problems = [reason for reason in schedule.reasons if "not served" in reason]
    names: dict[str, str] = {}
    merged: list[ServerPlan] = []
    for robot in [name for name, routes in schedule.routing.items() if routes]:
        parts = [schedule.server(target) for target in schedule.routing[robot].values()]
        names.update(dict.fromkeys((part.id for part in parts), f"gpu{len(merged)}"))
        alone = {component: ms for part in parts for component, ms in part.p99_ms.items()}
        blocked = {
            c: ms + max((o for other, o in alone.items() if other != c), default=0.0)
            for c, ms in alone.items()
        }
        merged.append(
            replace(
                parts[0],
                id=f"gpu{len(merged)}",
                models=tuple(dict.fromkeys(part.model for part in parts)),
                components=tuple(component for part in parts for component in part.components),
                streams={key: count for part in parts for key, count in part.streams.items()},
                rate_hz=sum(part.rate_hz for part in parts),
                utilisation=sum(part.utilisation for part in parts),
                mean_ms={c: ms for part in parts for c, ms in part.mean_ms.items()},
                p99_ms=blocked,
            )
        )
        task = robot.rsplit("/", 1)[0]
        cls = next(cls for cls in small.classes if cls.name == task)
        problems += [
            f"{task}.{need.component}: waits for another model on its GPU, {catalog.options.slo_statistic}"
            f" {blocked[need.component]:.0f} ms against slo_ms {need.slo_ms:g}"
            for need in cls.needs
            if blocked[need.component] > need.slo_ms
        ]
    routing = {robot: {c: names[t] for c, t in routes.items()} for robot, routes in schedule.routing.items()}
    return replace(
        schedule,
        servers=tuple(merged),
        routing=routing,
        reasons=tuple(dict.fromkeys(problems)),
        feasible=not problems,
        idle_servers=problem.servers - len(merged),
    )


BASELINES: dict[str, Callable[[Catalog, Problem, str], Schedule]] = {
    "gpu_per_robot": gpu_per_robot,
    "gpu_per_model": gpu_per_model,
    "equal_partition": equal_partition,
    "weighted_partition": weighted_partition,
}


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
    return _uncapped(catalog, problem, problem, bins, f"{schedule.scheduler}, uncapped", batches)


def _first_served(problem: Problem, servers_each: Callable[[TaskClass], int]) -> Problem:
    """The robots that the servers suffice for, first come first served."""
    served, left = [], problem.servers
    for cls in problem.classes:
        count = min(cls.robots, left // servers_each(cls))
        left -= count * servers_each(cls)
        served.append(replace(cls, robots=count))
    return replace(problem, classes=tuple(cls for cls in served if cls.robots))


def _own_workers(problem: Problem) -> Bins:
    return [
        (Kind(need.model, (need.component,)), [Load(cls.name, need.component, 1, 0.0, need.slo_ms)])
        for cls in problem.classes
        for _ in range(cls.robots)
        for need in cls.needs
    ]


def _partition(catalog: Catalog, problem: Problem, name: str) -> Schedule:
    kinds = kinds_of(problem, share_components=False)
    if len(kinds) > problem.servers:
        reason = (
            f"{len(kinds)} model components need a server each, {problem.servers} are there:"
            f" {', '.join(f'{kind.components[0]} ({kind.model})' for kind in kinds)}"
        )
        robots = {cls.name: cls.robots for cls in problem.classes}
        return Schedule(name, problem.gpu_type, False, robots=robots, capped=False, reasons=(reason,))
    counts = partition_counts(kinds, problem.servers, WEIGHTS[name])
    bins = []
    for kind in kinds:
        contents: list[list[Load]] = [[] for _ in range(counts[kind])]
        for offset, demand in enumerate(demands_of(problem, kind, {})):
            for index, streams in enumerate(balanced(demand.streams, counts[kind])):
                if streams:
                    contents[(index + offset) % len(contents)].append(replace(demand, streams=streams))
        bins += [(kind, content) for content in contents if content]
    return _uncapped(catalog, problem, problem, bins, name)


def _uncapped(
    catalog: Catalog,
    asked: Problem,
    problem: Problem,
    bins: Bins,
    name: str,
    batches: Sequence[tuple[str, int]] | None = None,
) -> Schedule:
    """The closed-loop prediction of a placement whose robots send as fast as they can."""
    if not problem.classes:
        reason = f"not one of {asked.robots} robots is served: {asked.servers} servers are too few for one of them"
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
