"""A schedule in operation: its workers with their loads, kept next to the schedule so that small changes are cheap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from rosa_server.scheduler.placement.packing import Kind
from rosa_server.scheduler.placement.placement import Worker, fastest_rate_hz, latencies_ms, loop_rate_hz
from rosa_server.scheduler.placement.to_schedule import component_rates, server_plan
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog, Load
from rosa_server.scheduler.schedule import Schedule


@dataclass(frozen=True)
class Planned:
    """What the schedule promised when it was deployed: the base that admission's losses are measured against.

    A task that had no robots then counts as planned with none, at the fastest rate that any server allows.
    """

    rates_hz: Mapping[str, float]
    robots: Mapping[str, int]
    streams: Mapping[str, Mapping[str, int]]  # server -> 'task/component' -> robots

    def objective(self, problem: Problem) -> float:
        """Equation (1) of the planned robots that are still here, at planned rates."""
        return sum(
            cls.weight * min(cls.robots, self.robots[cls.name]) * self.rates_hz[cls.name]
            for cls in problem.classes
        )


@dataclass(frozen=True)
class Deployment:
    """What runs: `workers` by server name, `rates_hz` by task, and the schedule that says the same to others.

    `problem` counts the robots that are routed now; its tasks are all that may be admitted, with or without robots.
    """

    problem: Problem
    catalog: Catalog
    schedule: Schedule
    workers: dict[str, Worker]
    rates_hz: dict[str, float]
    planned: Planned
    undo: tuple[str, Deployment] | None = None  # the robot that was admitted last, and what was before it

    @cached_property
    def classes(self) -> dict[str, TaskClass]:
        return {cls.name: cls for cls in self.problem.classes}

    @cached_property
    def needs(self) -> dict[tuple[str, str], Need]:
        """By task and component."""
        return {(cls.name, need.component): need for cls in self.problem.classes for need in cls.needs}


def deploy(problem: Problem, catalog: Catalog, schedule: Schedule) -> Deployment:
    """The deployment of a feasible schedule; tasks of `problem` without robots in it stay admissible.

    Raises ValueError when the schedule breaks an SLO under these profiles.
    """
    needs = {(cls.name, need.component): need for cls in problem.classes for need in cls.needs}
    rates: dict[str, float] = {}
    for name, per_component in schedule.rates_hz.items():
        rates[name] = per_component["system1"]
    workers = {}
    for server in schedule.servers:
        if server.standby:
            continue
        loads = []
        for key, streams in server.streams.items():
            task, component = key.rsplit("/", 1)
            need = needs[(task, component)]
            loads.append(Load(task, component, streams, need.rate_hz(rates[task]), need.slo_ms))
        kind = Kind(server.model, server.components)
        state = catalog.assess(server.model, loads)
        if state is None:
            raise ValueError(
                f"{server.id} breaks an SLO under these profiles: {dict(server.streams)} at {rates}"
            )
        workers[server.id] = Worker(kind, tuple(loads), state)
    counts = {cls.name: schedule.robots.get(cls.name, 0) for cls in problem.classes}
    present = replace(problem, classes=tuple(replace(c, robots=counts[c.name]) for c in problem.classes))
    base = {c.name: rates.get(c.name) or fastest_rate_hz(catalog, c) for c in problem.classes}
    now = {c.name: rates.get(c.name, 0.0) for c in problem.classes}
    per_server = {server.id: server.streams for server in schedule.servers}
    return Deployment(present, catalog, schedule, workers, now, Planned(base, counts, per_server))


def with_class(problem: Problem, cls: TaskClass) -> Problem:
    """`problem` with another robot count of one class."""
    return replace(
        problem, classes=tuple(cls if other.name == cls.name else other for other in problem.classes)
    )


def with_loads(deployment: Deployment, loads: dict[str, tuple[Load, ...]]) -> dict[str, Worker] | None:
    """The workers whose loads change, assessed anew; None when one breaks an SLO."""
    changed = {}
    for server_id, content in loads.items():
        kept = tuple(load for load in content if load.streams > 0)
        worker = deployment.workers[server_id]
        if not kept:
            changed[server_id] = replace(worker, loads=())
            continue
        state = deployment.catalog.assess(worker.kind.model, kept)
        if state is None:
            return None
        changed[server_id] = Worker(worker.kind, kept, state)
    return changed


def at_rates(
    loads: tuple[Load, ...], deployment: Deployment, rates_hz: Mapping[str, float]
) -> tuple[Load, ...]:
    """The same streams at other action rates."""
    needs = deployment.needs
    wanted = [needs[load.task, load.component].rate_hz(rates_hz[load.task]) for load in loads]
    return tuple(
        load if rate == load.rate_hz else Load(load.task, load.component, load.streams, rate, load.slo_ms)
        for load, rate in zip(loads, wanted, strict=True)
    )


def at_other_rates(
    deployment: Deployment, workers: Mapping[str, Worker], rates_hz: Mapping[str, float], names: set[str]
) -> dict[str, Worker]:
    """Those of `workers` whose loads become others when these classes change to these rates, which break no SLO."""
    contents = {
        key: at_rates(worker.loads, deployment, rates_hz)
        for key, worker in workers.items()
        if not names.isdisjoint(worker.tasks)
    }
    found = with_loads(deployment, {key: x for key, x in contents.items() if x != workers[key].loads})
    assert found is not None, f"an SLO breaks at {dict(rates_hz)}"
    return found


def plus(loads: tuple[Load, ...], change: Load) -> tuple[Load, ...]:
    """`loads` with `change.streams` more (or fewer) streams of its task and component."""
    found = False
    result = []
    for load in loads:
        if (load.task, load.component) == (change.task, change.component):
            found = True
            load = replace(load, streams=load.streams + change.streams)
        result.append(load)
    return tuple(load for load in (result if found else [*result, change]) if load.streams > 0)


def committed(
    deployment: Deployment,
    problem: Problem,
    changed: dict[str, Worker],
    rates_hz: dict[str, float],
    routing: Mapping[str, Mapping[str, str]],
) -> Deployment:
    """The deployment after a change. `changed` holds every worker whose loads or rates are others now."""
    workers = {**deployment.workers, **changed}
    plans = {server_id: server_plan(server_id, worker) for server_id, worker in changed.items()}
    servers = tuple(
        s
        if plan is None
        else plan
        if plan.components == s.components
        else replace(plan, components=s.components)
        for s in deployment.schedule.servers
        for plan in (plans.get(s.id),)
    )
    present = [cls for cls in problem.classes if cls.robots]
    schedule = replace(
        deployment.schedule,
        servers=servers,
        robots={cls.name: cls.robots for cls in present},
        rates_hz=component_rates(replace(problem, classes=tuple(present)), rates_hz),
        routing=routing,
        action_throughput_hz=sum(cls.robots * rates_hz[cls.name] for cls in present),
        objective=sum(cls.weight * cls.robots * rates_hz[cls.name] for cls in present),
        limits=(),
    )
    return Deployment(problem, deployment.catalog, schedule, workers, rates_hz, deployment.planned)


def audit(deployment: Deployment) -> list[str]:
    """Everything that is wrong, recomputed from routes and rates alone; empty = feasible under these profiles."""
    found = []
    loads: dict[str, list[Load]] = {server_id: [] for server_id in deployment.workers}
    counts: dict[str, int] = {}
    classes = deployment.classes
    for robot, routes in deployment.schedule.routing.items():
        task = robot.rsplit("/", 1)[0]
        counts[task] = counts.get(task, 0) + 1
        for need in classes[task].needs:
            target = routes.get(need.component)
            worker = deployment.workers.get(target or "")
            if target is None or worker is None:
                found.append(f"{robot}.{need.component} is routed to {target}, which does not run")
            elif worker.kind.model != need.model or need.component not in worker.kind.components:
                found.append(f"{robot}.{need.component} is routed to {target}, which hosts {worker.kind}")
            else:
                rate = need.rate_hz(deployment.rates_hz[task])
                loads[target] = list(
                    plus(tuple(loads[target]), Load(task, need.component, 1, rate, need.slo_ms))
                )
    workers = []
    for server_id, content in loads.items():
        if not content:
            continue
        state = deployment.catalog.assess(deployment.workers[server_id].kind.model, content)
        if state is None:
            found.append(f"{server_id} breaks an SLO with {content}")
        else:
            workers.append(Worker(deployment.workers[server_id].kind, tuple(content), state))
    latency = latencies_ms(workers)
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
