"""A placement at given action rates: which worker holds which streams, and whether equation (4) holds for
every class.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from rosa_server.scheduler.placement.packing import Bin, Kind, Packer
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Assessment, Catalog, Load


@dataclass(frozen=True)
class Worker:
    """One server with its streams and its best batching."""

    kind: Kind
    loads: tuple[Load, ...]
    state: Assessment

    @cached_property
    def tasks(self) -> frozenset[str]:
        return frozenset(load.task for load in self.loads)

    @cached_property
    def rate_hz(self) -> float:
        """Requests per second of all streams."""
        return sum(load.streams * load.rate_hz for load in self.loads)

    @cached_property
    def tightest_ms(self) -> float:
        """The lowest SLO of all streams."""
        return min((load.slo_ms for load in self.loads), default=inf)


def kinds_of(problem: Problem, share_components: bool) -> list[Kind]:
    """The kinds of worker a problem needs, goal-coupled ones first."""
    pairs: dict[tuple[str, str], bool] = {}
    for cls in problem.classes:
        for need in cls.needs:
            pairs[(need.component, need.model)] = need.is_goal
    ordered = sorted(pairs, key=lambda pair: not pairs[pair])
    if not share_components:
        return [Kind(model, (component,)) for component, model in ordered]
    models: dict[str, list[str]] = {}
    for component, model in ordered:
        models.setdefault(model, []).append(component)
    return [Kind(model, tuple(components)) for model, components in models.items()]


def hosts(kind: Kind, need: Need) -> bool:
    return kind.model == need.model and need.component in kind.components


def is_goal_kind(problem: Problem, kind: Kind) -> bool:
    """Whether the kind serves any goal-coupled component."""
    return any(need.is_goal and hosts(kind, need) for cls in problem.classes for need in cls.needs)


def demands_of(problem: Problem, kind: Kind, rates_hz: Mapping[str, float]) -> list[Load]:
    """The streams that workers of a kind must take at these action rates (equation (2) for obligations)."""
    return [
        Load(cls.name, need.component, cls.robots, need.rate_hz(rates_hz.get(cls.name, 0.0)), need.slo_ms)
        for cls in problem.classes
        for need in cls.needs
        if hosts(kind, need)
    ]


def workers_of(catalog: Catalog, kind: Kind, bins: Sequence[Bin]) -> list[Worker] | None:
    """Bins with the best batching of each, or None when a bin breaks an SLO."""
    workers = []
    for content in bins:
        state = catalog.assess(kind.model, content)
        if state is None:
            return None
        workers.append(Worker(kind, tuple(content), state))
    return workers


def latencies_ms(
    workers: Iterable[Worker], tasks: Container[str] | None = None
) -> dict[tuple[str, str], float]:
    """(task, component) -> loop latency, mean over the class's streams; of these tasks only, or of all."""
    total: dict[tuple[str, str], float] = {}
    streams: dict[tuple[str, str], int] = {}
    for worker in workers:
        for load in worker.loads:
            if tasks is not None and load.task not in tasks:
                continue
            key = (load.task, load.component)
            total[key] = total.get(key, 0.0) + load.streams * worker.state.loop_ms[load.component]
            streams[key] = streams.get(key, 0) + load.streams
    return {key: value / streams[key] for key, value in total.items()}


def loop_rate_hz(cls: TaskClass, latency_ms: Mapping[tuple[str, str], float]) -> float:
    """Equation (4): f_loop = 1 / (t_act + l_S1 + l_S2 / H)."""
    waiting = sum(
        need.calls_per_action * latency_ms.get((cls.name, need.component), inf) for need in cls.goals
    )
    return 1 / (cls.action_s + waiting / 1000)


def fastest_rate_hz(catalog: Catalog, cls: TaskClass) -> float:
    """Equation (4) with the least latency any worker has: no schedule gives more."""
    waiting = sum(n.calls_per_action * catalog.best_latency_ms(n.model, n.component) for n in cls.goals)
    return 1 / (cls.action_s + waiting / 1000)


def place_goals(
    catalog: Catalog,
    problem: Problem,
    kinds: Sequence[Kind],
    rates_hz: Mapping[str, float],
    servers: int,
    use_all: bool = False,
) -> list[Worker] | None:
    """Workers of the goal-coupled kinds that carry these rates within every SLO and equation (4), or None.

    Starts with the fewest workers of each kind; servers to spare go, a few at a time, to the kind that brings
    the slowest classes nearest to their rate. With `use_all` they go on lowering latency after every class
    has its rate.
    """
    packers = [Packer(catalog, kind, demands_of(problem, kind, rates_hz)) for kind in kinds]
    if sum(packer.least() for packer in packers) > servers:
        return None
    counts = [packer.fewest() for packer in packers]
    if sum(counts) > servers:
        return None
    sizes = [int(count) for count in counts]
    groups = [_packed(catalog, packer, size) for packer, size in zip(packers, sizes, strict=True)]
    if any(group is None for group in groups):
        return None
    ready: list[list[Worker]] = [group for group in groups if group is not None]
    spare = servers - sum(sizes)
    while True:
        lack = _lack(problem, ready, rates_hz)
        if lack <= 0 and not use_all:
            return [worker for group in ready for worker in group]
        if spare <= 0:
            break
        step = max(1, spare // 8)
        best, best_value = None, _value(problem, ready, rates_hz)
        for index, packer in enumerate(packers):
            wider = _packed(catalog, packer, sizes[index] + step)
            if wider is None:
                continue
            value = _value(problem, [*ready[:index], wider, *ready[index + 1 :]], rates_hz)
            if value < best_value - 1e-9 * step:
                best, best_value = (index, wider), value
        if best is None:
            break
        ready[best[0]] = best[1]
        sizes[best[0]] += step
        spare -= step
    return [worker for group in ready for worker in group] if _lack(problem, ready, rates_hz) <= 0 else None


def _packed(catalog: Catalog, packer: Packer, workers: int) -> list[Worker] | None:
    bins = packer.pack(workers)
    return None if bins is None else workers_of(catalog, packer.kind, bins)


def _lack(problem: Problem, groups: Sequence[Sequence[Worker]], rates_hz: Mapping[str, float]) -> float:
    """How far, in seconds of round time over all robots, classes are from their rates; 0 = equation (4) holds."""
    latency = latencies_ms([worker for group in groups for worker in group])
    lack = 0.0
    for cls in problem.classes:
        rate = rates_hz[cls.name]
        if rate > 0:
            lack += cls.robots * max(0.0, 1 / loop_rate_hz(cls, latency) - 1 / rate * (1 + 1e-9))
    return lack


def _value(problem: Problem, groups: Sequence[Sequence[Worker]], rates_hz: Mapping[str, float]) -> float:
    """What spare servers should lower: lack first, then latency (the paper's tie-breaking)."""
    latency = latencies_ms([worker for group in groups for worker in group])
    rounds = sum(cls.robots / loop_rate_hz(cls, latency) for cls in problem.classes)
    return 1000 * _lack(problem, groups, rates_hz) + rounds
