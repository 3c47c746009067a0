"""Global rescheduling without a gap: old routes stay until the new workers are warm (ROSA 3.4.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rosa_server.scheduler.schedule import Schedule, ServerPlan

Route = tuple[str, str, str]  # robot, component, server


@dataclass(frozen=True)
class Step:
    """One step of a migration; the next begins when this one is done.

    `lower_rates` and `raise_rates` set rates_hz; `start` loads a model on a free server and waits until it is
    warm; `switch` changes routes; `stop` unloads a server without routes; `drain` takes a server from robots
    that have no other, so they fall back locally until a later `switch` (its routes name them).
    """

    action: str
    server: str = ""
    model: str = ""
    routes: tuple[Route, ...] = ()
    rates_hz: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Migration:
    """Steps from one schedule to another, and the new schedule with its servers named as they will run."""

    steps: tuple[Step, ...]
    schedule: Schedule

    @property
    def interrupted(self) -> tuple[Route, ...]:
        """Streams that are without a server for a while, because no server is free to warm up first."""
        return tuple(route for step in self.steps if step.action == "drain" for route in step.routes)


def plan_migration(old: Schedule, new: Schedule, servers: int) -> Migration:
    """How to get from `old` to `new` on a cluster of `servers` GPUs.

    Servers that host the same model keep it. Robots that stay keep the lower of both rates until all routes are new.
    """
    new = renamed(old, new)
    before = {server.id: server.models for server in old.servers}
    after = {server.id: server.models for server in new.servers}
    to_start = [server_id for server_id in after if before.get(server_id) != after[server_id]]
    to_stop = [server_id for server_id in before if after.get(server_id) != before[server_id]]
    steps: list[Step] = [Step("lower_rates", rates_hz=_rates(old, new, lower=True))]
    routing = {robot: dict(routes) for robot, routes in old.routing.items() if robot in new.routing}
    running = set(before)
    free = servers - len(running)
    pending = list(to_start)
    ready = {server_id for server_id in after if server_id not in pending}
    steps += _switch(routing, new, ready)
    while pending or to_stop:
        used = {target for routes in routing.values() for target in routes.values()}
        for server_id in [s for s in to_stop if s not in used]:
            steps.append(Step("stop", server_id, _joined(before[server_id])))
            to_stop.remove(server_id)
            running.discard(server_id)
            free += 1
        startable = [s for s in pending if s not in running and free > 0][:free]
        if not startable and pending:
            victim = next((s for s in to_stop if s in pending), to_stop[0])
            routes = tuple((r, c, t) for r, m in routing.items() for c, t in m.items() if t == victim)
            for robot, component, _ in routes:
                del routing[robot][component]
            steps.append(Step("drain", victim, _joined(before[victim]), routes))
            continue
        for server_id in startable:
            steps.append(Step("start", server_id, _joined(after[server_id])))
            pending.remove(server_id)
            running.add(server_id)
            free -= 1
            ready.add(server_id)
        steps += _switch(routing, new, ready)
    steps.append(Step("raise_rates", rates_hz=_rates(old, new, lower=False)))
    return Migration(tuple(steps), new)


def renamed(old: Schedule, new: Schedule) -> Schedule:
    """`new` with server names such that as many servers as possible keep model and role, and then routes."""
    shared: dict[tuple[str, str], int] = {}
    for robot, routes in new.routing.items():
        for component, target in routes.items():
            was = old.routing.get(robot, {}).get(component)
            if was is not None:
                shared[(was, target)] = shared.get((was, target), 0) + 1
    left = {server.id: server for server in old.servers}
    names: dict[str, str] = {}

    def score(pair: tuple[ServerPlan, ServerPlan]) -> tuple[bool, bool, int]:
        was, now = pair
        return was.components == now.components, was.standby == now.standby, shared.get((was.id, now.id), 0)

    pairs = [(was, now) for was in old.servers for now in new.servers if was.models == now.models]
    for kept, now in sorted(pairs, key=score, reverse=True):
        if kept.id in left and now.id not in names:
            names[now.id] = kept.id
            del left[kept.id]
    taken = set(names.values()) | {server.id for server in old.servers}
    number = 0
    reusable = list(left)
    for server in new.servers:
        if server.id in names:
            continue
        if len(taken) >= len(old.servers) + old.idle_servers and reusable:
            name = reusable.pop(0)  # no unused server: one of the old ones changes its model
        else:
            while f"gpu{number}" in taken:
                number += 1
            name = f"gpu{number}"
        names[server.id] = name
        taken.add(name)
    servers = tuple(replace(s, id=names[s.id], covers=tuple(names[c] for c in s.covers)) for s in new.servers)
    routing = {r: {c: names[t] for c, t in routes.items()} for r, routes in new.routing.items()}
    return replace(new, servers=servers, routing=routing)


def _switch(routing: dict[str, dict[str, str]], new: Schedule, ready: set[str]) -> list[Step]:
    changes = []
    for robot, routes in new.routing.items():
        for component, target in routes.items():
            if target in ready and routing.get(robot, {}).get(component) != target:
                routing.setdefault(robot, {})[component] = target
                changes.append((robot, component, target))
    return [Step("switch", routes=tuple(changes))] if changes else []


def _rates(old: Schedule, new: Schedule, lower: bool) -> tuple[tuple[str, float], ...]:
    rates = []
    for task, per_component in new.rates_hz.items():
        rate = per_component["system1"]
        if lower and task in old.rates_hz:
            rate = min(rate, old.rates_hz[task]["system1"])
        rates.append((task, rate))
    return tuple(rates)


def _joined(models: tuple[str, ...]) -> str:
    return " + ".join(models)
