"""Placement-preserving admission of one robot (ROSA 3.4.4).

No weights move. The new robot is routed to servers that run already; batching may change, and where needed the action
rates of the classes that it shares servers with, down to their minimum. Lower rates only lower loads and latencies
elsewhere, so checking the servers that the robot joins is enough: this is why admission is fast. Rates fall exactly as
far as the stream needs, on the server where that costs equation (1) least. Losses are measured against the planned
rates, however many robots came before; `removal.py` gives them back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf

from rosa_server.scheduler.bisection import furthest
from rosa_server.scheduler.placement.schedule import Refusal, slot_name
from rosa_server.scheduler.placement.servers import PlacedServer, latencies_ms, loads_at, loop_rate_hz
from rosa_server.scheduler.problem import Need, TaskClass
from rosa_server.scheduler.profiles.catalog import Load
from rosa_server.scheduler.running.deployment import (
    Deployment,
    Servers,
    at_new_rates,
    committed,
    plus,
    with_loads,
)

MIN_SHARE = 0.2  # of its planned rate, which admission leaves every class: below, rescheduling does better
POOR_EFFICIENCY = 0.05  # of what the planned robots gain in equation (1); a larger loss asks for rescheduling
STEPS = 5  # of bisection, where the share of the rates that fits has no closed form: to about 1 %


@dataclass(frozen=True)
class Admission:
    """The answer to one robot. When it is refused nothing changed, and global rescheduling is the next step."""

    admitted: bool
    slot: str  # the robot's, if it is admitted
    deployment: Deployment
    reason: str
    reschedule: bool  # worth a global rescheduling in the background (or the only way, when refused)
    refusal: Refusal | None = None


def admit(deployment: Deployment, task: str) -> Admission:
    """Admit one more robot of `task` without moving weights, or say what stands in the way.

    Raises KeyError for an unknown task.
    """
    classes = deployment.problem.by_name
    if task not in classes:
        raise KeyError(f"no task {task!r}; known: {', '.join(classes)}")
    cls = replace(classes[task], robots=classes[task].robots + 1)
    problem = deployment.problem.with_class(cls)
    slot = _new_slot(deployment, task)
    full = dict(deployment.rates_hz)
    if cls.robots == 1:
        full[task] = deployment.promise.rates_hz[task]
    joining = _Joining(deployment, cls, full)
    refusal = joining.find_servers() or joining.keep_rounds()
    if refusal is not None:
        reason = f"{task}: {refusal.reason}; needs global rescheduling"
        return Admission(False, slot, deployment, reason, True, refusal)
    rates, targets = joining.rates_hz, joining.targets
    routing = {**deployment.schedule.routing, slot: targets}
    after = committed(deployment, problem, joining.changed, rates, routing)
    after = replace(after, undo=(slot, replace(deployment, undo=None)))
    poor = after.schedule.objective < (1 - POOR_EFFICIENCY) * after.promise.objective(problem)
    reason = f"{slot} joins {', '.join(f'{c}: {s}' for c, s in targets.items())}"
    fallen = [
        f"{n} {full[n]:.2f} to {rate:.2f} Hz" for n, rate in rates.items() if rate < full[n] * (1 - 1e-6)
    ]
    if fallen:
        reason += f"; rates fall: {', '.join(fallen)}"
        reason += f", because {joining.binding.reason}" if joining.binding else ""
    return Admission(True, slot, after, reason, poor)


class _Joining:
    """One robot that joins: first a server for each of its components, then rates that all rounds still allow.

    Each step returns what stands in the way, or None.
    """

    def __init__(self, deployment: Deployment, cls: TaskClass, full: dict[str, float]) -> None:
        """`cls` counts the robot already; `full` holds the rates, Hz, that may be lowered."""
        self._deployment, self._full = deployment, full
        self._task = cls.name
        self._classes = {**deployment.problem.by_name, cls.name: cls}
        self._least = {
            name: max(each.min_rate_hz, MIN_SHARE * deployment.promise.rates_hz[name])
            for name, each in deployment.problem.by_name.items()
        }
        self._joined: Servers = {}  # with the robot, at the rates of the moment when it joined each
        self.rates_hz = dict(full)
        self.targets: dict[str, str] = {}  # component -> server
        self.changed: Servers = {}
        self.binding: Refusal | None = None  # why rates fell; None: only because rounds became longer

    def find_servers(self) -> Refusal | None:
        """Servers for all components, and rates at which every SLO holds there."""
        needs = sorted(self._classes[self._task].needs, key=lambda need: need.is_goal)
        for need in needs:  # obligations first: rates make no room for them, so a refusal comes soon
            if not self._find_server(need):
                return self._no_room(need)
        return None

    def keep_rounds(self) -> Refusal | None:
        """Rates at which equation (4) holds as well. Where rounds become so long that a class would fall below its
        least rate, the classes that share a server with the robot slow down further, which shortens them.
        """
        start = dict(self.rates_hz)
        blocked = self._settle(start, 1.0)
        if blocked and _highest_share(lambda share: self._settle(start, share) is None) is not None:
            self.binding, blocked = self.binding or blocked, None
        return blocked

    # --- servers

    def _find_server(self, need: Need) -> bool:
        """Joins the first server with room: servers that answer the task already come first, then the least loaded.
        If none has room, joins the one where equation (1) loses least.
        """
        deployment, catalog = self._deployment, self._deployment.catalog
        ranked = sorted(
            (self._task not in server.tasks, server.rate_hz, server_id)
            for server_id, server in deployment.servers.items()
            if server.kind.serves(need)
        )
        rate_hz = need.rate_hz(self.rates_hz[self._task])
        for _, used_hz, server_id in ranked:
            server = deployment.servers[server_id]
            if len(server.kind.components) == 1:  # a cheap check before the exact one
                tightest_ms = min(server.tightest_ms, need.slo_ms)
                if used_hz + rate_hz > 1.001 * catalog.capacity_hz(need.model, need.component, tightest_ms):
                    continue
            if self._join(server_id, need, {}):
                return True
        self.binding = self.binding or self._no_room(need)
        best, min_loss = None, inf
        for _, _, server_id in ranked:
            lowered_hz = self._lowered_for(server_id, need)
            if lowered_hz is not None and (loss := self._loss(lowered_hz)) < min_loss:
                best, min_loss = (server_id, lowered_hz), loss
        return best is not None and self._join(best[0], need, best[1])

    def _join(self, server_id: str, need: Need, lowered_hz: Mapping[str, float]) -> bool:
        server = self._with_stream(server_id, need, lowered_hz)
        if server is None:
            return False
        self.targets[need.component] = server_id
        self._joined[server_id] = server
        self.rates_hz.update(lowered_hz)
        return True

    def _lowered_for(self, server_id: str, need: Need) -> dict[str, float] | None:
        """The highest rates, Hz, of the classes on a server at which it takes one more stream: one share of the current
        rates for all, none below its least rate; None when even those are too much.
        """
        server, needs = self._deployment.servers[server_id], self._deployment.problem.needs
        if len(server.kind.components) > 1:
            return self._lowered_by_bisection(server_id, need)
        if not need.is_goal:
            return None  # the rates of obligations are fixed
        calls = {self._task: need.calls_per_action}  # per action, of all streams of a class
        for load in server.loads:
            each = needs[load.stream_class].calls_per_action
            calls[load.task] = calls.get(load.task, 0.0) + each * load.streams
        tightest_ms = min(server.tightest_ms, need.slo_ms)
        room_hz = self._deployment.catalog.capacity_hz(need.model, need.component, tightest_ms)
        rates = self.rates_hz
        lowered: dict[str, float] = {}
        while calls and room_hz > 0:
            share = min(1.0, room_hz / sum(each * rates[name] for name, each in calls.items()))
            at_least_rate = [name for name in calls if share * rates[name] < self._least[name]]
            for name in at_least_rate or list(calls):
                lowered[name] = self._lowered(name, rates[name], share)
                room_hz -= calls.pop(name) * lowered[name]
            if not at_least_rate:
                return lowered
        return lowered if room_hz >= 0 and not calls else None

    def _lowered_by_bisection(self, server_id: str, need: Need) -> dict[str, float] | None:
        """The same for a server of several components, whose loads add up differently under each batching."""
        needs = self._deployment.problem.needs
        loads = (self._joined.get(server_id) or self._deployment.servers[server_id]).loads
        names = {load.task for load in loads if needs[load.stream_class].is_goal}
        names |= {self._task} if need.is_goal else set()

        def rates_at(share: float) -> dict[str, float]:
            return {name: self._lowered(name, self.rates_hz[name], share) for name in names}

        share = _highest_share(lambda each: self._with_stream(server_id, need, rates_at(each)) is not None)
        return None if share is None else rates_at(share)

    def _with_stream(
        self, server_id: str, need: Need, lowered_hz: Mapping[str, float]
    ) -> PlacedServer | None:
        """A server with one more stream, at rates of which some are lowered; None when an SLO breaks."""
        deployment, rates = self._deployment, {**self.rates_hz, **lowered_hz}
        before = self._joined.get(server_id) or deployment.servers[server_id]
        stream = Load(self._task, need.component, 1, need.rate_hz(rates[self._task]), need.slo_ms)
        loads = plus(before.loads, stream)
        if rates != self._full:
            loads = loads_at(loads, deployment.problem.needs, rates)
        found = with_loads(deployment, {server_id: loads})
        return None if found is None else found[server_id]

    def _lowered(self, name: str, rate_hz: float, share: float) -> float:
        """A class's rate, Hz, at a share of another, but no further down than it may go."""
        return max(min(self._least[name], rate_hz), share * rate_hz)

    def _loss(self, lowered_hz: Mapping[str, float]) -> float:
        """Of equation (1)."""
        return sum(
            self._classes[name].weight * self._classes[name].robots * (self.rates_hz[name] - rate)
            for name, rate in lowered_hz.items()
        )

    def _no_room(self, need: Need) -> Refusal:
        catalog, rate_hz = self._deployment.catalog, need.rate_hz(self.rates_hz[self._task])
        capacity = catalog.capacity_hz(need.model, need.component, need.slo_ms)
        words = (
            f"no server with {need.component} has room for {rate_hz:.3g} req/s more at"
            f" {catalog.options.slo_statistic} {need.slo_ms:g} ms (one serves {capacity:.3g} req/s)"
        )
        return Refusal("servers_full", words)

    # --- rounds

    def _settle(self, start_hz: Mapping[str, float], share: float) -> Refusal | None:
        """Takes the rates `start_hz`, those on the joined servers times a share, and lets them fall to what rounds
        allow. That lowers loads and latencies, so it stays feasible.
        """
        deployment = self._deployment
        neighbours = {
            load.task
            for server in self._joined.values()
            for load in server.loads
            if deployment.problem.needs[load.stream_class].is_goal
        }
        rates = dict(start_hz)
        for name in neighbours:
            rates[name] = self._lowered(name, rates[name], share)
        servers = {**deployment.servers, **self._joined}
        lowered = {name for name, rate in rates.items() if rate != self._full[name]}
        changed = self._joined | at_new_rates(deployment, servers, rates, lowered)
        servers |= changed
        latency = latencies_ms(servers.values(), neighbours)
        longer = set()
        for name in neighbours:
            loop_hz = loop_rate_hz(self._classes[name], latency)
            if loop_hz < self._least[name] * (1 - 1e-9):
                words = (
                    f"{name}: its longer rounds allow {loop_hz:.3f} Hz instead of {self._full[name]:.3f} Hz"
                )
                return Refusal("rounds_too_long", words)
            if loop_hz * (1 + 1e-9) < rates[name]:
                rates[name] = loop_hz
                longer.add(name)
        if longer:
            changed |= at_new_rates(deployment, servers, rates, longer)
        self.rates_hz, self.changed = rates, changed
        return None


def _highest_share(fits: Callable[[float], bool]) -> float | None:
    """The highest share below 1 that fits, if lower ones fit too; in finer steps towards 1. None when 0 does not fit.

    The share that is returned is the last one that `fits` accepted.
    """
    if not fits(0.0):
        return None

    def share_at(step: float) -> float:
        return 1 - (1 - step) ** 2

    return share_at(furthest(lambda step: fits(share_at(step)), 0.0, 1.0, STEPS))


def _new_slot(deployment: Deployment, task: str) -> str:
    number = deployment.problem.by_name[task].robots
    while slot_name(task, number) in deployment.schedule.routing:
        number += 1
    return slot_name(task, number)
