"""Removal of one robot (ROSA 3.4.4). No weights move here either; the rates that admission lowered rise again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rosa_server.scheduler.placement.schedule import task_of
from rosa_server.scheduler.placement.servers import latencies_ms, loop_rate_hz
from rosa_server.scheduler.problem import StreamClass, TaskClass
from rosa_server.scheduler.profiles.catalog import Load
from rosa_server.scheduler.running.deployment import Deployment, Servers, committed, plus, with_loads
from rosa_server.scheduler.running.raising import raised


def remove(deployment: Deployment, slot: str) -> Deployment:
    """The deployment without the robot in `slot`, with rates that are no lower. Never infeasible.

    If the robot was the last one admitted, everything is as before it came. Otherwise one server loses load for each of
    its goal-coupled components, and a robot from that server takes the free place:
    - the slowest server that has more streams of the task than planned, which leads back to the planned placement;
    - or the slowest of all, which lowers the task's mean, where the first would break equation (4).

    Raises KeyError for an unknown slot.
    """
    if slot not in deployment.schedule.routing:
        raise KeyError(f"no robot {slot!r} is routed")
    if deployment.undo is not None and deployment.undo[0] == slot:
        return deployment.undo[1]
    cls = deployment.problem.by_name[task_of(slot)]
    routing = {other: routes for other, routes in deployment.schedule.routing.items() if other != slot}
    servers = dict(deployment.servers)
    for component, server_id in deployment.schedule.routing[slot].items():
        for leaving in _relieved(deployment, servers, StreamClass(cls.name, component), server_id):
            fewer = _with_one_less(deployment, servers, StreamClass(cls.name, component), leaving)
            if cls.robots == 1 or _keeps_its_rate(deployment, cls, {**servers, **fewer}):
                break
        servers.update(fewer)
        if leaving != server_id:
            mover = _anyone(routing, cls.name, component, leaving)
            routing[mover] = {**routing[mover], component: server_id}
    fewer_robots = replace(cls, robots=cls.robots - 1)
    fleet = replace(deployment, problem=deployment.problem.with_class(fewer_robots))
    rates, servers = raised(fleet, servers)
    changed = {key: server for key, server in servers.items() if server is not deployment.servers[key]}
    return committed(fleet, fleet.problem, changed, rates, routing)


def _with_one_less(deployment: Deployment, servers: Servers, key: StreamClass, server_id: str) -> Servers:
    """A server with one stream of a class less."""
    need = deployment.problem.needs[key]
    stream = Load(*key, -1, need.rate_hz(deployment.rates_hz[key.task]), need.slo_ms)
    fewer = with_loads(deployment, {server_id: plus(servers[server_id].loads, stream)})
    assert fewer is not None, "fewer streams cannot break an SLO"
    return fewer


def _keeps_its_rate(deployment: Deployment, cls: TaskClass, servers: Servers) -> bool:
    """Whether equation (4) holds for a class at its rate on these servers."""
    latency = latencies_ms(servers.values(), {cls.name})
    return deployment.rates_hz[cls.name] <= loop_rate_hz(cls, latency) * (1 + 1e-9)


def _relieved(deployment: Deployment, servers: Servers, key: StreamClass, own: str) -> list[str]:
    """Which server is to have a stream less: the best choice, and one that is always possible."""
    if not deployment.problem.needs[key].is_goal:
        return [own]  # no rate depends on it
    found = []
    for server_id, server in servers.items():
        streams = sum(load.streams for load in server.loads if load.stream_class == key)
        if streams:
            too_many = streams > deployment.promise.streams[server_id].get(key, 0)
            found.append((too_many, server.state.loop_ms[key.component], server_id == own, server_id))
    slowest = max(found, key=lambda each: each[1:])
    return [max(found)[-1], slowest[-1]]


def _anyone(routing: Mapping[str, Mapping[str, str]], task: str, component: str, server_id: str) -> str:
    """Any robot of a task whose component is routed to a server."""
    return next(
        slot
        for slot, routes in routing.items()
        if task_of(slot) == task and routes.get(component) == server_id
    )
