"""The paper's baselines (ROSA 4.1) behind the scheduler's interface. None of them caps the robots' request rates.

Uncapped robots form a closed loop: each sends as soon as it has acted. The predicted rate is where equation (4), with
latency from the profiles, meets its own load; where the load passes a worker's maximum, latency is what makes the loop
fit that maximum. A schedule whose latency then breaks an SLO is reported as not feasible, with the SLO that breaks, and
keeps its placement: its actions are not SLO-qualified, as in section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

from rosa_server.scheduler.build import build_schedule
from rosa_server.scheduler.catalog import Assessment, Catalog, Load, Options
from rosa_server.scheduler.library import ProfileLibrary
from rosa_server.scheduler.packing import Kind, balanced
from rosa_server.scheduler.placement import Worker, demands_of, kinds_of
from rosa_server.scheduler.problem import Problem, TaskClass
from rosa_server.scheduler.schedule import Schedule

# Model sizes for the weighted partition, by System 1 : 7B VLM : 3B VLM as ROSA Table 3 shows it (1:3:1:3).
SIZE_UNITS = {"7B": 3, "3B": 1}
ROUNDS = 60


def solve_baseline(problem: Problem, library: ProfileLibrary, name: str) -> Schedule:
    """The schedule of one of `BASELINES`; batch size one for System 1, continuous batching for the others."""
    catalog = Catalog(problem, library, Options(batch_sizes=(1,)))
    return BASELINES[name](catalog, problem, name)


def equal_partition(catalog: Catalog, problem: Problem, name: str) -> Schedule:
    """Baseline 3: the same number of GPUs for every model component."""
    return _partition(catalog, problem, name, lambda kind: 1)


def weighted_partition(catalog: Catalog, problem: Problem, name: str) -> Schedule:
    """Baseline 4: GPUs in proportion to model sizes."""
    return _partition(
        catalog, problem, name, lambda k: next((u for s, u in SIZE_UNITS.items() if s in k.model[3:]), 1)
    )


def gpu_per_model(catalog: Catalog, problem: Problem, name: str) -> Schedule:
    """Baseline 2: every robot has a GPU for each of its models; robots beyond that are not served."""
    served, left = [], problem.servers
    for cls in problem.classes:
        count = min(cls.robots, left // len(cls.needs))
        left -= count * len(cls.needs)
        served.append(replace(cls, robots=count))
    small = replace(problem, classes=tuple(cls for cls in served if cls.robots))
    bins = [
        (Kind(need.model, (need.component,)), [Load(cls.name, need.component, 1, 0.0, need.slo_ms)])
        for cls in small.classes
        for _ in range(cls.robots)
        for need in cls.needs
    ]
    return _uncapped(catalog, problem, small, bins, name)


def gpu_per_robot(catalog: Catalog, problem: Problem, name: str) -> Schedule:
    """Baseline 1: every robot has one GPU that runs all of its models.

    The models take turns on the GPU: a request may wait for one request of each other model. A model's p99 therefore
    grows by the longest service time among the others, if there are others.
    """
    served, left = [], problem.servers
    for cls in problem.classes:
        count = min(cls.robots, left)
        left -= count
        served.append(replace(cls, robots=count))
    small = replace(problem, classes=tuple(cls for cls in served if cls.robots))
    bins = [
        (Kind(need.model, (need.component,)), [Load(cls.name, need.component, 1, 0.0, need.slo_ms)])
        for cls in small.classes
        for _ in range(cls.robots)
        for need in cls.needs
    ]
    schedule = _uncapped(catalog, problem, small, bins, name)
    problems = [reason for reason in schedule.reasons if "not served" in reason]
    for cls in small.classes:
        alone = {n.component: catalog.best_latency_ms(n.model, n.component) for n in cls.needs}
        for need in cls.needs:
            others = [ms for component, ms in alone.items() if component != need.component]
            p99 = alone[need.component] + max(others, default=0.0)
            if p99 > need.slo_ms:
                problems.append(
                    f"{cls.name}.{need.component}: waits for another model on its GPU, p99 {p99:.0f} ms"
                    f" against slo_ms {need.slo_ms:g}"
                )
    return replace(schedule, reasons=tuple(problems), feasible=not problems)


BASELINES: dict[str, Callable[[Catalog, Problem, str], Schedule]] = {
    "gpu_per_robot": gpu_per_robot,
    "gpu_per_model": gpu_per_model,
    "equal_partition": equal_partition,
    "weighted_partition": weighted_partition,
}


def _partition(catalog: Catalog, problem: Problem, name: str, units: Callable[[Kind], int]) -> Schedule:
    kinds = kinds_of(problem, share_components=False)
    weights = {kind: units(kind) for kind in kinds}
    total = sum(weights.values())
    counts = {kind: max(1, int(problem.servers * weight / total)) for kind, weight in weights.items()}
    if sum(counts.values()) > problem.servers:
        reason = f"{len(kinds)} model components need a server each, {problem.servers} are there"
        robots = {cls.name: cls.robots for cls in problem.classes}
        return Schedule(name, problem.gpu_type, False, robots=robots, capped=False, reasons=(reason,))
    rest = problem.servers - sum(counts.values())
    for kind in sorted(kinds, key=lambda k: counts[k] - problem.servers * weights[k] / total)[:rest]:
        counts[kind] += 1
    bins = []
    for kind in kinds:
        contents: list[list[Load]] = [[] for _ in range(counts[kind])]
        for offset, demand in enumerate(demands_of(problem, kind, {})):
            split = balanced(demand.streams, counts[kind])
            for index, streams in enumerate(split):
                if streams:
                    contents[(index + offset) % len(contents)].append(replace(demand, streams=streams))
        bins += [(kind, content) for content in contents if content]
    return _uncapped(catalog, problem, problem, bins, name)


def _uncapped(
    catalog: Catalog, asked: Problem, problem: Problem, bins: Sequence[tuple[Kind, list[Load]]], name: str
) -> Schedule:
    """The closed-loop prediction of a placement with robots that send as fast as they can."""
    rates = dict.fromkeys((cls.name for cls in problem.classes), 0.0)
    for _ in range(ROUNDS):  # damped fixed point of equation (4)
        latency = _latencies(catalog, problem, bins, rates)
        for cls in problem.classes:
            wait = sum(n.calls_per_action * latency[(cls.name, n.component)] for n in cls.goals) / 1000
            rates[cls.name] = 0.8 * rates[cls.name] + 0.2 / (cls.action_s + wait)
    workers = [_worker(catalog, problem, kind, content, rates) for kind, content in bins]
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
    unserved = {f"{c.name}/{i}" for c in asked.classes for i in range(c.robots)} - set(schedule.routing)
    return replace(
        schedule,
        capped=False,
        limits=(),
        feasible=not problems,
        reasons=tuple(dict.fromkeys(problems)),
        routing={**schedule.routing, **{robot: {} for robot in sorted(unserved)}},
    )


def _latencies(
    catalog: Catalog, problem: Problem, bins: Sequence[tuple[Kind, list[Load]]], rates: Mapping[str, float]
) -> dict[tuple[str, str], float]:
    total: dict[tuple[str, str], float] = {}
    streams: dict[tuple[str, str], int] = {}
    for kind, content in bins:
        state = _worker(catalog, problem, kind, content, rates).state
        for load in content:
            key = (load.task, load.component)
            total[key] = total.get(key, 0.0) + load.streams * state.mean_ms[load.component]
            streams[key] = streams.get(key, 0) + load.streams
    return {key: value / streams[key] for key, value in total.items()}


def _worker(
    catalog: Catalog, problem: Problem, kind: Kind, content: Sequence[Load], rates: Mapping[str, float]
) -> Worker:
    """A worker with whatever latency its load causes, within the SLO or not."""
    component = kind.components[0]
    classes = {cls.name: cls for cls in problem.classes}
    loads = tuple(replace(load, rate_hz=_rate(classes[load.task], component, rates)) for load in content)
    choice = catalog.configurations(kind.model, component)[0]
    total = sum(load.streams * load.rate_hz for load in loads)
    mean, p99 = choice.latency_ms("mean", total), choice.latency_ms(catalog.options.slo_statistic, total)
    if mean == inf:  # saturated: robots queue until the loop fits the maximum
        waiting = sum(load.streams for load in loads)
        mean = max(choice.latency[-1].mean_ms, 1000 * waiting / choice.max_throughput_hz)
        p99 = max(choice.latency[-1].p99_ms, mean)
    state = Assessment(
        choice, total / choice.max_throughput_hz, {component: mean}, {component: mean}, {component: p99}
    )
    return Worker(kind, loads, state)


def _rate(cls: TaskClass, component: str, rates: Mapping[str, float]) -> float:
    return next(need.rate_hz(rates[cls.name]) for need in cls.needs if need.component == component)
