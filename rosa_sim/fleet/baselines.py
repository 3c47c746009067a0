"""The paper's baselines (ROSA 4.1) behind the scheduler's interface. None of them caps the robots' request rates.

uncapped.py predicts what comes of that. A schedule whose latency breaks an SLO is reported as not feasible, with the
SLO that breaks, and keeps its placement: its actions are not SLO-qualified, as in section 4.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from rosa_server.scheduler.placement.packing import ServerKind, balanced
from rosa_server.scheduler.placement.schedule import Refusal, Schedule, ServerPlan, task_of
from rosa_server.scheduler.placement.servers import demands_of, kinds_of
from rosa_server.scheduler.problem import Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog, Load
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_sim.fleet.uncapped import Placement, closed_loop


def solve_baseline(problem: Problem, library: ProfileLibrary, name: str) -> Schedule:
    """The schedule of one of `BASELINES`; batch size one for System 1, continuous batching for the others."""
    catalog = Catalog(problem, library, Options(batch_sizes=(1,)))
    return BASELINES[name](catalog, problem, name)


def model_size(kind: ServerKind) -> float:
    """Billions of parameters as the model's name says (`-7B-`), else 1."""
    found = re.search(r"(\d+(?:\.\d+)?)B(?![a-z])", kind.model)
    return float(found.group(1)) if found else 1.0


# Partition -> what servers are divided by.
WEIGHTS: dict[str, Callable[[ServerKind], float]] = {
    "equal_partition": lambda kind: 1.0,
    "weighted_partition": model_size,
}


def partition_counts(
    kinds: Sequence[ServerKind], servers: int, weight: Callable[[ServerKind], float]
) -> dict[ServerKind, int]:
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
    return closed_loop(catalog, problem, small, _dedicated_servers(small), name)


def gpu_per_robot(catalog: Catalog, problem: Problem, name: str) -> Schedule:
    """Baseline 1: every robot has one GPU that runs all of its models.

    The models take turns on the GPU: a request may wait for one request of each other model, so a component's
    latency at the percentile grows by the longest answer among the others.
    """
    small = _first_served(problem, lambda cls: 1)
    schedule = closed_loop(catalog, problem, small, _dedicated_servers(small), name)
    reasons = [refusal for refusal in schedule.reasons if refusal.cause == "robots_not_served"]
    names: dict[str, str] = {}
    merged: list[ServerPlan] = []
    for slot in [slot for slot, routes in schedule.routing.items() if routes]:
        parts = [schedule.server(target) for target in schedule.routing[slot].values()]
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
        cls = small.by_name[task_of(slot)]
        reasons += [
            Refusal(
                "slo_missed",
                f"{cls.name}.{need.component}: waits for another model on its GPU, {catalog.options.slo_statistic}"
                f" {blocked[need.component]:.0f} ms against slo_ms {need.slo_ms:g}",
            )
            for need in cls.needs
            if blocked[need.component] > need.slo_ms
        ]
    routing = {slot: {c: names[t] for c, t in routes.items()} for slot, routes in schedule.routing.items()}
    return replace(
        schedule,
        servers=tuple(merged),
        routing=routing,
        reasons=tuple(dict.fromkeys(reasons)),
        feasible=not reasons,
        idle_servers=problem.servers - len(merged),
    )


BASELINES: dict[str, Callable[[Catalog, Problem, str], Schedule]] = {
    "gpu_per_robot": gpu_per_robot,
    "gpu_per_model": gpu_per_model,
    "equal_partition": equal_partition,
    "weighted_partition": weighted_partition,
}


def _first_served(problem: Problem, servers_each: Callable[[TaskClass], int]) -> Problem:
    """The robots that the servers suffice for, first come first served."""
    served, left = [], problem.servers
    for cls in problem.classes:
        count = min(cls.robots, left // servers_each(cls))
        left -= count * servers_each(cls)
        served.append(replace(cls, robots=count))
    return replace(problem, classes=tuple(cls for cls in served if cls.robots))


def _dedicated_servers(problem: Problem) -> Placement:
    return [
        (ServerKind(need.model, (need.component,)), [Load(cls.name, need.component, 1, 0.0, need.slo_ms)])
        for cls in problem.classes
        for _ in range(cls.robots)
        for need in cls.needs
    ]


def _partition(catalog: Catalog, problem: Problem, name: str) -> Schedule:
    kinds = kinds_of(problem, share_components=False)
    if len(kinds) > problem.servers:
        words = (
            f"{len(kinds)} model components need a server each, and there are {problem.servers}:"
            f" {', '.join(f'{kind.components[0]} ({kind.model})' for kind in kinds)}"
        )
        robots = {cls.name: cls.robots for cls in problem.classes}
        reasons = (Refusal("too_few_servers", words),)
        return Schedule(name, problem.gpu_type, False, robots=robots, capped=False, reasons=reasons)
    counts = partition_counts(kinds, problem.servers, WEIGHTS[name])
    placement = []
    for kind in kinds:
        packed: list[list[Load]] = [[] for _ in range(counts[kind])]
        for offset, demand in enumerate(demands_of(problem, kind, {})):
            for index, streams in enumerate(balanced(demand.streams, counts[kind])):
                if streams:
                    packed[(index + offset) % len(packed)].append(replace(demand, streams=streams))
        placement += [(kind, loads) for loads in packed if loads]
    return closed_loop(catalog, problem, problem, placement, name)
