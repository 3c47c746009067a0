"""Servers with their streams at given action rates: their latencies, and the rounds that these allow (equation (4))."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from rosa_contract.config.tasks import SYSTEM1, SYSTEM2
from rosa_server.scheduler.placement.packing import ServerKind, ServerLoads
from rosa_server.scheduler.problem import Need, Problem, StreamClass, TaskClass
from rosa_server.scheduler.profiles.catalog import Assessment, Catalog, Load


@dataclass(frozen=True)
class PlacedServer:
    """One server with its streams and its best batching."""

    kind: ServerKind
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


def kinds_of(problem: Problem, share_components: bool) -> list[ServerKind]:
    """The kinds of server a problem needs, goal-coupled ones first."""
    pairs: dict[tuple[str, str], bool] = {}
    for cls in problem.classes:
        for need in cls.needs:
            pairs[(need.component, need.model)] = need.is_goal
    ordered = sorted(pairs, key=lambda pair: not pairs[pair])
    if not share_components:
        return [ServerKind(model, (component,)) for component, model in ordered]
    models: dict[str, list[str]] = {}
    for component, model in ordered:
        models.setdefault(model, []).append(component)
    return [ServerKind(model, tuple(components)) for model, components in models.items()]


def is_goal_kind(problem: Problem, kind: ServerKind) -> bool:
    """Whether the kind serves any goal-coupled component."""
    return any(need.is_goal and kind.serves(need) for need in problem.needs.values())


def demands_of(problem: Problem, kind: ServerKind, rates_hz: Mapping[str, float]) -> list[Load]:
    """The streams that servers of a kind must take at these action rates (equation (2) for obligations)."""
    return [
        Load(cls.name, need.component, cls.robots, need.rate_hz(rates_hz.get(cls.name, 0.0)), need.slo_ms)
        for cls in problem.classes
        for need in cls.needs
        if kind.serves(need)
    ]


def placed_servers(
    catalog: Catalog, kind: ServerKind, packed: Iterable[ServerLoads]
) -> list[PlacedServer] | None:
    """Servers with these loads and the best batching of each, or None when one breaks an SLO."""
    placed = []
    for loads in packed:
        state = catalog.assess(kind.model, loads)
        if state is None:
            return None
        placed.append(PlacedServer(kind, tuple(loads), state))
    return placed


def loads_at(
    loads: Sequence[Load], needs: Mapping[StreamClass, Need], rates_hz: Mapping[str, float]
) -> tuple[Load, ...]:
    """The same streams at other action rates."""
    rates = [needs[load.stream_class].rate_hz(rates_hz[load.task]) for load in loads]
    return tuple(
        load if rate == load.rate_hz else Load(load.task, load.component, load.streams, rate, load.slo_ms)
        for load, rate in zip(loads, rates, strict=True)
    )


def latencies_ms(
    placed: Iterable[PlacedServer], tasks: Container[str] | None = None
) -> dict[StreamClass, float]:
    """Loop latency of each stream class, mean over its streams; of these tasks only, or of all."""
    total: dict[StreamClass, float] = {}
    streams: dict[StreamClass, int] = {}
    for server in placed:
        for load in server.loads:
            if tasks is not None and load.task not in tasks:
                continue
            key = load.stream_class
            total[key] = total.get(key, 0.0) + load.streams * server.state.loop_ms[load.component]
            streams[key] = streams.get(key, 0) + load.streams
    return {key: value / streams[key] for key, value in total.items()}


def loop_rate_hz(cls: TaskClass, latency_ms: Mapping[StreamClass, float]) -> float:
    """Equation (4): f_loop = 1 / (t_act + l_S1 + l_S2 / H)."""
    waiting = sum(
        need.calls_per_action * latency_ms.get(StreamClass(cls.name, need.component), inf)
        for need in cls.goals
    )
    return 1 / (cls.action_s + waiting / 1000)


def overlapped_rate_hz(cls: TaskClass, latency_ms: Mapping[StreamClass, float]) -> float:
    """What rounds would allow whose inference overlaps execution (`rosa_client/runtime/ahead.py`).

    A round takes as long as the longer of action and inference. Before an action that needs another plan the robot
    plans when it has come to its end, or, with `planning: ahead`, while it acts.
    """
    ms = {need.component: latency_ms.get(StreamClass(cls.name, need.component), inf) for need in cls.goals}
    acts_s, infers_s, plans_s = cls.action_s, ms[SYSTEM1] / 1000, ms.get(SYSTEM2, 0.0) / 1000
    of_plans = {need.component: need.calls_per_action for need in cls.goals}.get(SYSTEM2, 0.0)
    planned_s = max(acts_s, infers_s)
    replanned_s = max(acts_s, plans_s + infers_s) if cls.plans_ahead else acts_s + plans_s + infers_s
    return 1 / ((1 - of_plans) * planned_s + of_plans * replanned_s)


def fastest_rate_hz(catalog: Catalog, cls: TaskClass) -> float:
    """Equation (4) with the least latency that any server has: no schedule gives more."""
    waiting = sum(n.calls_per_action * catalog.best_latency_ms(n.model, n.component) for n in cls.goals)
    return 1 / (cls.action_s + waiting / 1000)
