"""A schedule in operation: its servers with their loads, kept next to the schedule so that small changes are cheap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from rosa_server.scheduler.placement.packing import ServerKind
from rosa_server.scheduler.placement.schedule import Schedule, task_of
from rosa_server.scheduler.placement.servers import (
    PlacedServer,
    fastest_rate_hz,
    latencies_ms,
    loads_at,
    loop_rate_hz,
)
from rosa_server.scheduler.placement.to_schedule import component_rates, server_plan
from rosa_server.scheduler.problem import Problem, StreamClass
from rosa_server.scheduler.profiles.catalog import Catalog, Load

Servers = dict[str, PlacedServer]  # by server name


@dataclass(frozen=True)
class Promise:
    """What the schedule promised when it was deployed: admission's losses are measured against it.

    For a task that had no robots then, nobody was promised anything; its rate is the fastest that any server allows.
    """

    rates_hz: Mapping[str, float]
    robots: Mapping[str, int]
    streams: Mapping[str, Mapping[StreamClass, int]]  # server -> streams

    def objective(self, problem: Problem) -> float:
        """Equation (1) of the promised robots that are still here, at promised rates."""
        return sum(
            cls.weight * min(cls.robots, self.robots[cls.name]) * self.rates_hz[cls.name]
            for cls in problem.classes
        )


@dataclass(frozen=True)
class Deployment:
    """What runs: `servers` by name, `rates_hz` by task, and the schedule that tells others the same.

    `problem` counts the robots that are routed now; its tasks are all that may be admitted, with or without robots.
    """

    problem: Problem
    catalog: Catalog
    schedule: Schedule
    servers: Servers
    rates_hz: dict[str, float]
    promise: Promise
    undo: tuple[str, Deployment] | None = None  # the slot that was admitted last, and what was before it


def deploy(problem: Problem, catalog: Catalog, schedule: Schedule) -> Deployment:
    """The deployment of a feasible schedule; tasks of `problem` without robots in it stay admissible.

    Raises ValueError when the schedule breaks an SLO under these profiles.
    """
    rates = {name: components["system1"] for name, components in schedule.rates_hz.items()}
    servers = {}
    for server in schedule.servers:
        if server.standby:
            continue
        loads = []
        for key, streams in server.streams.items():
            need = problem.needs[key]
            loads.append(Load(key.task, key.component, streams, need.rate_hz(rates[key.task]), need.slo_ms))
        # One that nobody uses yet is assessed by what it could be asked.
        asked = loads or [
            Load(key.task, key.component, 0, 0.0, need.slo_ms)
            for key, need in problem.needs.items()
            if need.model == server.model and key.component in server.components
        ]
        if not asked:
            continue
        state = catalog.assess(server.model, asked)
        if state is None:
            at = ", ".join(f"{count} x {key}" for key, count in server.streams.items())
            raise ValueError(f"{server.id} breaks an SLO under these profiles: {at} at {rates}")
        kind = ServerKind(server.model, server.components)
        servers[server.id] = PlacedServer(kind, tuple(loads), state)
    counts = {cls.name: schedule.robots.get(cls.name, 0) for cls in problem.classes}
    present = replace(problem, classes=tuple(replace(c, robots=counts[c.name]) for c in problem.classes))
    promised = {c.name: rates.get(c.name) or fastest_rate_hz(catalog, c) for c in problem.classes}
    now = {c.name: rates.get(c.name, 0.0) for c in problem.classes}
    streams_of = {server.id: server.streams for server in schedule.servers}
    promise = Promise(promised, counts, streams_of)
    return Deployment(present, catalog, schedule, servers, now, promise)


def with_loads(deployment: Deployment, loads: Mapping[str, tuple[Load, ...]]) -> Servers | None:
    """The servers whose loads change, assessed again; None when one breaks an SLO."""
    changed = {}
    for server_id, new in loads.items():
        kept = tuple(load for load in new if load.streams > 0)
        server = deployment.servers[server_id]
        if not kept:
            changed[server_id] = replace(server, loads=())
            continue
        state = deployment.catalog.assess(server.kind.model, kept)
        if state is None:
            return None
        changed[server_id] = PlacedServer(server.kind, kept, state)
    return changed


def at_new_rates(
    deployment: Deployment,
    servers: Mapping[str, PlacedServer],
    rates_hz: Mapping[str, float],
    classes: set[str],
) -> Servers:
    """Those of `servers` whose loads change when these classes change to these rates, which break no SLO."""
    loads = {
        key: loads_at(server.loads, deployment.problem.needs, rates_hz)
        for key, server in servers.items()
        if not classes.isdisjoint(server.tasks)
    }
    found = with_loads(deployment, {key: new for key, new in loads.items() if new != servers[key].loads})
    assert found is not None, f"an SLO breaks at {dict(rates_hz)}"
    return found


def plus(loads: tuple[Load, ...], change: Load) -> tuple[Load, ...]:
    """`loads` with `change.streams` more (or fewer) streams of its stream class."""
    found = False
    result = []
    for load in loads:
        if load.stream_class == change.stream_class:
            found = True
            load = replace(load, streams=load.streams + change.streams)
        result.append(load)
    return tuple(load for load in (result if found else [*result, change]) if load.streams > 0)


def committed(
    deployment: Deployment,
    problem: Problem,
    changed: Servers,
    rates_hz: dict[str, float],
    routing: Mapping[str, Mapping[str, str]],
) -> Deployment:
    """The deployment after a change. `changed` holds every server whose loads or rates are different now."""
    servers = []
    for server in deployment.schedule.servers:
        if server.id in changed:  # a server keeps its components, even ones that no robot uses any more
            server = replace(server_plan(server.id, changed[server.id]), components=server.components)
        servers.append(server)
    present = replace(problem, classes=tuple(cls for cls in problem.classes if cls.robots))
    schedule = replace(
        deployment.schedule,
        servers=tuple(servers),
        robots={cls.name: cls.robots for cls in present.classes},
        rates_hz=component_rates(present, rates_hz),
        routing=routing,
        action_throughput_hz=present.action_throughput_hz(rates_hz),
        objective=present.objective(rates_hz),
        limits=(),
    )
    placed = {**deployment.servers, **changed}
    return Deployment(problem, deployment.catalog, schedule, placed, rates_hz, deployment.promise)


def audit(deployment: Deployment) -> list[str]:
    """Everything that is wrong, recomputed from routes and rates alone; empty = feasible under these profiles."""
    found = []
    loads: dict[str, list[Load]] = {server_id: [] for server_id in deployment.servers}
    counts: dict[str, int] = {}
    for slot, routes in deployment.schedule.routing.items():
        task = task_of(slot)
        counts[task] = counts.get(task, 0) + 1
        for need in deployment.problem.by_name[task].needs:
            target = routes.get(need.component)
            server = deployment.servers.get(target or "")
            if target is None or server is None:
                found.append(f"{slot}.{need.component} is routed to {target}, which does not run")
            elif not server.kind.serves(need):
                found.append(f"{slot}.{need.component} is routed to {target}, which hosts {server.kind}")
            else:
                rate = need.rate_hz(deployment.rates_hz[task])
                stream = Load(task, need.component, 1, rate, need.slo_ms)
                loads[target] = list(plus(tuple(loads[target]), stream))
    placed = []
    for server_id, held in loads.items():
        if not held:
            continue
        kind = deployment.servers[server_id].kind
        state = deployment.catalog.assess(kind.model, held)
        if state is None:
            found.append(f"{server_id} breaks an SLO with {held}")
        else:
            placed.append(PlacedServer(kind, tuple(held), state))
    latency = latencies_ms(placed)
    for cls in deployment.problem.classes:
        if counts.get(cls.name, 0) != cls.robots:
            found.append(f"{cls.name} counts {cls.robots} robots, {counts.get(cls.name, 0)} are routed")
        if cls.robots:
            rate, loop = deployment.rates_hz[cls.name], loop_rate_hz(cls, latency) if not found else inf
            if rate > loop * (1 + 1e-6):
                found.append(f"{cls.name}: {rate:.4f} Hz exceeds what its round allows, {loop:.4f} Hz")
            if rate < cls.min_rate_hz * (1 - 1e-9):
                found.append(f"{cls.name}: {rate:.4f} Hz is below min_action_rate_hz {cls.min_rate_hz:g}")
    return found
