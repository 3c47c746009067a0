"""Removal of one robot (ROSA 3.4.4). No weights move here either; the rates that admission lowered rise again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rosa_server.scheduler.placement.placement import Worker, latencies_ms, loop_rate_hz
from rosa_server.scheduler.problem import TaskClass
from rosa_server.scheduler.profiles.catalog import Load
from rosa_server.scheduler.running.deployment import (
    Deployment,
    committed,
    plus,
    with_class,
    with_loads,
)
from rosa_server.scheduler.running.raising import raised

Workers = dict[str, Worker]


def remove(deployment: Deployment, robot: str) -> Deployment:
    """The deployment without `robot`, with rates that are no lower. Never infeasible.

    A robot that was admitted last leaves everything as it was before it. Else, wherever it was, the load of its
    goal-coupled components falls on the slowest server that has more streams of its task than planned, which leads
    back to the plan; or, if equation (4) would break, on the slowest of all, which lowers its task's mean: a robot from
    there takes the free place. Raises KeyError for an unknown robot.
    """
    if robot not in deployment.schedule.routing:
        raise KeyError(f"no robot {robot!r} is routed")
    if deployment.undo is not None and deployment.undo[0] == robot:
        return deployment.undo[1]
    cls = deployment.classes[robot.rsplit("/", 1)[0]]
    routing = {name: routes for name, routes in deployment.schedule.routing.items() if name != robot}
    workers = dict(deployment.workers)
    for component, server_id in deployment.schedule.routing[robot].items():
        for leaving in _leaving(deployment, workers, cls, component, server_id):
            fewer = _without(deployment, workers, cls, component, leaving)
            if cls.robots == 1 or _keeps(deployment, cls, workers, fewer):
                break
        workers.update(fewer)
        if leaving != server_id:
            mover = _anyone(routing, cls.name, component, leaving)
            routing[mover] = {**routing[mover], component: server_id}
    fleet = replace(deployment, problem=with_class(deployment.problem, replace(cls, robots=cls.robots - 1)))
    rates, workers = raised(fleet, workers)
    changed = {key: worker for key, worker in workers.items() if worker is not deployment.workers[key]}
    return committed(fleet, fleet.problem, changed, rates, routing)


def _without(
    deployment: Deployment, workers: Workers, cls: TaskClass, component: str, server_id: str
) -> Workers:
    """A worker with one stream of a class less."""
    need = deployment.needs[cls.name, component]
    stream = Load(cls.name, component, -1, need.rate_hz(deployment.rates_hz[cls.name]), need.slo_ms)
    fewer = with_loads(deployment, {server_id: plus(workers[server_id].loads, stream)})
    assert fewer is not None, "fewer streams cannot break an SLO"
    return fewer


def _keeps(deployment: Deployment, cls: TaskClass, workers: Workers, fewer: Workers) -> bool:
    """Whether equation (4) holds for a class at its rate after a change of workers."""
    latency = latencies_ms({**workers, **fewer}.values(), {cls.name})
    return deployment.rates_hz[cls.name] <= loop_rate_hz(cls, latency) * (1 + 1e-9)


def _leaving(deployment: Deployment, workers: Workers, cls: TaskClass, component: str, own: str) -> list[str]:
    """Which server is to have a stream less: the best choice, and one that is always possible."""
    if not deployment.needs[cls.name, component].is_goal:
        return [own]  # no rate depends on it
    key = f"{cls.name}/{component}"
    found = []
    for server_id, worker in workers.items():
        streams = sum(x.streams for x in worker.loads if (x.task, x.component) == (cls.name, component))
        if streams:
            too_many = streams > deployment.planned.streams[server_id].get(key, 0)
            found.append((too_many, worker.state.loop_ms[component], server_id == own, server_id))
    slowest = max(found, key=lambda each: each[1:])
    return [max(found)[-1], slowest[-1]]


def _anyone(routing: Mapping[str, Mapping[str, str]], task: str, component: str, server_id: str) -> str:
    return next(
        name
        for name, routes in routing.items()
        if name.startswith(f"{task}/") and routes.get(component) == server_id
    )
