"""Removal of one robot (ROSA 3.4.4). No weights move here either; the rates that admission lowered rise again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rosa_server.scheduler.catalog import Load
from rosa_server.scheduler.deployment import (
    Deployment,
    at_rates,
    committed,
    plus,
    with_class,
    with_loads,
)
from rosa_server.scheduler.placement import Worker, latencies_ms, loop_rate_hz
from rosa_server.scheduler.problem import TaskClass
from rosa_server.scheduler.raising import raised

Workers = dict[str, Worker]


def remove(deployment: Deployment, robot: str) -> Deployment:
    """The deployment without `robot`, with rates that are no lower. Never infeasible.

    A robot that was admitted last leaves everything as it was before it. Else its own streams end if equation (4) still
    holds for its task; if it leaves a fast server and the mean would rise, a robot of its task on the slowest server
    takes the free place. Raises KeyError for an unknown robot.
    """
    if robot not in deployment.schedule.routing:
        raise KeyError(f"no robot {robot!r} is routed")
    if deployment.undo is not None and deployment.undo[0] == robot:
        return deployment.undo[1]
    cls = deployment.classes[robot.rsplit("/", 1)[0]]
    routing = {name: routes for name, routes in deployment.schedule.routing.items() if name != robot}
    workers = {**deployment.workers, **_stale(deployment)}
    for component, server_id in deployment.schedule.routing[robot].items():
        leaving = server_id
        fewer = _without(deployment, workers, cls, component, leaving)
        if (
            cls.robots > 1
            and deployment.needs[cls.name, component].is_goal
            and not _keeps(deployment, cls, workers, fewer)
        ):
            leaving = _slowest(workers, cls.name, component, server_id)
            fewer = _without(deployment, workers, cls, component, leaving)
            if leaving != server_id:
                mover = _anyone(routing, cls.name, component, leaving)
                routing[mover] = {**routing[mover], component: server_id}
        workers.update(fewer)
    fleet = replace(deployment, problem=with_class(deployment.problem, replace(cls, robots=cls.robots - 1)))
    rates, workers = raised(fleet, workers)
    changed = {key: worker for key, worker in workers.items() if worker is not deployment.workers[key]}
    return committed(fleet, fleet.problem, changed, rates, routing)


def _stale(deployment: Deployment) -> Workers:
    """The workers whose estimates are from before the last fall of a rate, assessed anew."""
    contents = {
        key: at_rates(worker.loads, deployment, deployment.rates_hz)
        for key, worker in deployment.workers.items()
    }
    changed = {
        key: loads
        for key, loads in contents.items()
        if any(a is not b for a, b in zip(loads, deployment.workers[key].loads, strict=True))
    }
    found = with_loads(deployment, changed)
    assert found is not None, "lower rates cannot break an SLO"
    return found


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
    those = [w for w in {**workers, **fewer}.values() if any(load.task == cls.name for load in w.loads)]
    return deployment.rates_hz[cls.name] <= loop_rate_hz(cls, latencies_ms(those)) * (1 + 1e-9)


def _slowest(workers: Workers, task: str, component: str, start: str) -> str:
    slowest, most_ms = start, -1.0
    for server_id, worker in workers.items():
        if any(load.task == task and load.component == component for load in worker.loads):
            latency = worker.state.loop_ms.get(component, 0.0)
            if latency > most_ms + 1e-9 or (latency >= most_ms - 1e-9 and server_id == start):
                slowest, most_ms = server_id, latency
    return slowest


def _anyone(routing: Mapping[str, Mapping[str, str]], task: str, component: str, server_id: str) -> str:
    return next(
        name
        for name, routes in routing.items()
        if name.startswith(f"{task}/") and routes.get(component) == server_id
    )
