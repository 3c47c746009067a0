"""Global rescheduling without a gap: old routes stay until the new servers are warm (ROSA 3.4.4), and no SLO breaks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rosa_server.scheduler.placement.schedule import Schedule, ServerPlan
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.running.traffic import StreamMove, Traffic


@dataclass(frozen=True)
class Step:
    """One step of a migration; the next begins when this one is done.

    `lower_rates` and `raise_rates` set rates_hz; `start` loads a model on a free server and waits until it is
    warm; `switch` changes routes, all at once; `stop` unloads a server without routes; `drain` takes a server from
    robots that have no other, so they fall back locally until a later `switch` (its routes name them).
    `overloads`: servers that begin to break an SLO with it; none where both schedules keep their SLOs.
    """

    action: str
    server: str = ""
    model: str = ""
    routes: tuple[StreamMove, ...] = ()
    rates_hz: tuple[tuple[str, float], ...] = ()
    overloads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Migration:
    """Steps from one schedule to another, and the new schedule with its servers named as they will run."""

    steps: tuple[Step, ...]
    schedule: Schedule

    @property
    def interrupted(self) -> tuple[StreamMove, ...]:
        """Streams that are without a server for a while, because no server is free to warm up first."""
        return tuple(route for step in self.steps if step.action == "drain" for route in step.routes)


def plan_migration(old: Schedule, new: Schedule, problem: Problem, catalog: Catalog) -> Migration:
    """How to get from `old` to `new`, the schedule of `problem`, on its number of servers.

    Servers that host the same model keep it. Robots that stay keep the lower of both rates until all routes are new.
    A stream moves when its new server is warm and has room for it, so no step breaks an SLO that both schedules keep. A
    stream loses its server only where no server is free to warm up and no other server of its new model has room, as
    when a component gets another model.
    """
    new = renamed(old, new, problem.servers)
    return Migration(_Steps(old, new, problem, catalog).found(), new)


class _Steps:
    """The steps so far, and what is true after the last of them."""

    def __init__(self, old: Schedule, new: Schedule, problem: Problem, catalog: Catalog) -> None:
        self.new = new
        before = {server.id: server.models for server in old.servers}
        self.after = {server.id: server.models for server in new.servers}
        self.hosted = dict(before)
        self.pending = [name for name in self.after if before.get(name) != self.after[name]]
        self.to_stop = [name for name in before if self.after.get(name) != before[name]]
        self.free = problem.servers - len(before)
        self.ready = {name for name in self.after if name not in self.pending}
        routing = {
            slot: {
                component: server for component, server in routes.items() if component in new.routing[slot]
            }
            for slot, routes in old.routing.items()
            if slot in new.routing
        }
        self.here = set(routing)
        rates_hz = {
            task: min(rates["system1"], old.rates_hz.get(task, rates)["system1"])
            for task, rates in new.rates_hz.items()
        }
        self.traffic = Traffic(problem, catalog, routing, rates_hz, self.hosted)
        self.steps: list[Step] = []
        self._overloaded: set[str] = set()
        self._add(Step("lower_rates", rates_hz=tuple(rates_hz.items())))

    def found(self) -> tuple[Step, ...]:
        self._start()
        self._switch()
        while self.pending or self.to_stop:
            self._stop_unused()
            if not self._start() and self.pending:
                self._drain()
                continue
            self._switch()
        rates = tuple((task, rates["system1"]) for task, rates in self.new.rates_hz.items())
        higher = tuple(pair for pair in rates if pair not in self.steps[0].rates_hz)
        return (*self.steps, Step("raise_rates", rates_hz=higher)) if higher else tuple(self.steps)

    def _add(self, step: Step) -> None:
        fresh = self.traffic.overloaded - self._overloaded
        self._overloaded = set(self.traffic.overloaded)
        self.steps.append(replace(step, overloads=tuple(sorted(fresh))))

    def _start(self) -> bool:
        """Starts pending servers while there are free ones."""
        names = [name for name in self.pending if name not in self.hosted][: max(0, self.free)]
        for name in names:
            self.pending.remove(name)
            self.hosted[name] = self.after[name]
            self.ready.add(name)
            self.free -= 1
            self._add(Step("start", name, _joined(self.after[name])))
        return bool(names)

    def _switch(self) -> None:
        """Routes streams to their new servers as far as these have room, which they all have once all are ready."""
        made: list[StreamMove] = []
        while moves := self._moves():
            moves = self.traffic.movable(moves) if self.pending else moves
            self.traffic.make(moves)
            made += moves
            if not moves:
                break
        if made:
            self._add(Step("switch", routes=tuple(made)))

    def _moves(self) -> list[StreamMove]:
        """Routes that differ from the new schedule's, to servers that are ready; the most urgent first.

        Streams without a server that had one come first, then those on a server that has to go; robots that were not
        here before come last.
        """
        routing, leaving = self.traffic.routing, set(self.to_stop)
        found: list[tuple[int, StreamMove]] = []
        for slot, routes in self.new.routing.items():
            for component, server in routes.items():
                now = routing.get(slot, {}).get(component)
                if server in self.ready and now != server:
                    urgency = 1 if now in leaving else 2 if now is not None else 0 if slot in self.here else 3
                    found.append((urgency, StreamMove(slot, component, server)))
        return [move for _, move in sorted(found, key=lambda pair: pair[0])]

    def _stop_unused(self) -> None:
        used = self.traffic.used()
        for name in [name for name in self.to_stop if name not in used]:
            self.to_stop.remove(name)
            self._add(Step("stop", name, _joined(self.hosted.pop(name))))
            self.free += 1

    def _drain(self) -> None:
        """Takes the server with the fewest streams from its robots, so that a pending server can start in its place."""
        reused = [name for name in self.to_stop if name in self.pending] or self.to_stop
        victim = min(reused, key=lambda name: len(self.traffic.on(name)))
        routes = self.traffic.on(victim)
        self.traffic.drop(routes)
        self._add(Step("drain", victim, _joined(self.hosted[victim]), tuple(routes)))


def renamed(old: Schedule, new: Schedule, servers: int) -> Schedule:
    """`new` with server names such that as many of the `servers` as possible keep model and role, and then routes."""
    shared: dict[tuple[str, str], int] = {}
    for slot, routes in new.routing.items():
        for component, target in routes.items():
            was = old.routing.get(slot, {}).get(component)
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
    hosted = {server.models for server in old.servers}
    rest = [server for server in new.servers if server.id not in names]
    for server in sorted(
        rest, key=lambda each: each.models in hosted
    ):  # models that no server hosts yet cannot wait
        if len(taken) >= servers and reusable:
            name = reusable.pop(0)  # no unused server: one of the old ones changes its model
        else:
            while f"gpu{number}" in taken:
                number += 1
            name = f"gpu{number}"
        names[server.id] = name
        taken.add(name)
    plans = tuple(replace(s, id=names[s.id], covers=tuple(names[c] for c in s.covers)) for s in new.servers)
    routing = {r: {c: names[t] for c, t in routes.items()} for r, routes in new.routing.items()}
    return replace(new, servers=plans, routing=routing)


def _joined(models: tuple[str, ...]) -> str:
    return " + ".join(models)
