"""Placement-preserving admission of one robot (ROSA 3.4.4).

No weights move. The new robot is routed to servers that run already; batching may change, and where needed
the action rates of the classes it shares servers with, down to their minimum. Lower rates only lower loads
and latencies elsewhere, so checking the servers that the robot joins is enough: this is why admission is
fast. They fall exactly as far as the stream needs, on the server where that costs least of equation (1). What
admission takes is measured against the plan, however many robots came before; `removal.py` gives it back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf

from rosa_server.scheduler.placement.placement import Worker, latencies_ms, loop_rate_hz
from rosa_server.scheduler.problem import Need, TaskClass
from rosa_server.scheduler.profiles.catalog import Load
from rosa_server.scheduler.running.deployment import (
    Deployment,
    at_other_rates,
    at_rates,
    committed,
    plus,
    with_class,
    with_loads,
)

LEAST_SHARE = (
    0.2  # admission does not push a class below this part of its planned rate: rescheduling does better
)
POOR_EFFICIENCY = 0.05  # of what the planned robots gain in equation (1); a larger loss asks for rescheduling
STEPS = 5  # of bisection, where the share of the rates that fits has no closed form: to about 1 %


@dataclass(frozen=True)
class Admission:
    """The answer to one robot. Refused: nothing changed, and global rescheduling is the next step."""

    admitted: bool
    robot: str
    deployment: Deployment
    reason: str
    reschedule: bool  # worth a global rescheduling in the background (or the only way, when refused)


def admit(deployment: Deployment, task: str) -> Admission:
    """Admit one more robot of `task` without moving weights, or say what stands in the way.

    Raises KeyError for an unknown task.
    """
    classes = deployment.classes
    if task not in classes:
        raise KeyError(f"no task {task!r}; known: {', '.join(classes)}")
    cls = replace(classes[task], robots=classes[task].robots + 1)
    problem = with_class(deployment.problem, cls)
    robot = _new_name(deployment, task)
    full = dict(deployment.rates_hz)
    if cls.robots == 1:
        full[task] = deployment.planned.rates_hz[task]
    joining = _Joining(deployment, cls, full)
    blocked = joining.find_servers() or joining.keep_rounds()
    if blocked:
        return Admission(False, robot, deployment, f"{task}: {blocked}; needs global rescheduling", True)
    rates, targets = joining.rates_hz, joining.targets
    routing = {**deployment.schedule.routing, robot: targets}
    after = committed(deployment, problem, joining.changed, rates, routing)
    after = replace(after, undo=(robot, replace(deployment, undo=None)))
    poor = after.schedule.objective < (1 - POOR_EFFICIENCY) * after.planned.objective(problem)
    reason = f"{robot} joins {', '.join(f'{c}: {s}' for c, s in targets.items())}"
    fallen = [
        f"{n} {full[n]:.2f} to {rate:.2f} Hz" for n, rate in rates.items() if rate < full[n] * (1 - 1e-6)
    ]
    if fallen:
        reason += f"; rates fall: {', '.join(fallen)}"
        reason += f", as {joining.binding}" if joining.binding else ""
    return Admission(True, robot, after, reason, poor)


class _Joining:
    """One robot on its way in: first a server for each of its components, then the rates that leave everybody's rounds
    long enough. Each step says what is in the way, or nothing.
    """

    def __init__(self, deployment: Deployment, cls: TaskClass, full: dict[str, float]) -> None:
        """`cls` counts the robot already; `full` holds the rates, Hz, that may be lowered."""
        self._deployment, self._full = deployment, full
        self._task = cls.name
        self._classes = {**deployment.classes, cls.name: cls}
        self._least = {
            name: max(each.min_rate_hz, LEAST_SHARE * deployment.planned.rates_hz[name])
            for name, each in deployment.classes.items()
        }
        self._joined: dict[str, Worker] = {}  # with the robot, at the rates when it was their turn
        self.rates_hz = dict(full)
        self.targets: dict[str, str] = {}  # component -> server
        self.changed: dict[str, Worker] = {}
        self.binding = ""  # why rates had to fall, where not merely because rounds became longer

    def find_servers(self) -> str:
        """Servers for all components, and rates at which every SLO holds there."""
        needs = sorted(self._classes[self._task].needs, key=lambda need: need.is_goal)
        for need in needs:  # obligations first: rates make no room for them, so a refusal comes soon
            if not self._find_server(need):
                return self._no_room(need)
        return ""

    def keep_rounds(self) -> str:
        """Rates at which equation (4) holds as well. Where rounds become so long that a class would fall below its
        least rate, whoever shares a server with the robot slows down further, which makes them shorter.
        """
        start = dict(self.rates_hz)
        blocked = self._settle(start, 1.0)
        if blocked and _highest_share(lambda share: not self._settle(start, share)) is not None:
            self.binding, blocked = self.binding or blocked, ""
        return blocked

    # --- servers

    def _find_server(self, need: Need) -> bool:
        """Joins the first server with room, of those that serve the task already before the others, the least loaded
        first; if there is none, the one where equation (1) loses least.
        """
        deployment, catalog = self._deployment, self._deployment.catalog
        ranked = sorted(
            (self._task not in worker.tasks, worker.rate_hz, server_id)
            for server_id, worker in deployment.workers.items()
            if worker.kind.model == need.model and need.component in worker.kind.components
        )
        rate_hz = need.rate_hz(self.rates_hz[self._task])
        for _, used_hz, server_id in ranked:
            worker = deployment.workers[server_id]
            if len(worker.kind.components) == 1:  # a cheap look before the exact one
                tightest_ms = min(worker.tightest_ms, need.slo_ms)
                if used_hz + rate_hz > 1.001 * catalog.capacity_hz(need.model, need.component, tightest_ms):
                    continue
            if self._join(server_id, need, {}):
                return True
        self.binding = self.binding or self._no_room(need)
        best, least_loss = None, inf
        for _, _, server_id in ranked:
            lowered_hz = self._lowered_for(server_id, need)
            if lowered_hz is not None and (loss := self._loss(lowered_hz)) < least_loss:
                best, least_loss = (server_id, lowered_hz), loss
        return best is not None and self._join(best[0], need, best[1])

    def _join(self, server_id: str, need: Need, lowered_hz: Mapping[str, float]) -> bool:
        worker = self._with_stream(server_id, need, lowered_hz)
        if worker is None:
            return False
        self.targets[need.component] = server_id
        self._joined[server_id] = worker
        self.rates_hz.update(lowered_hz)
        return True

    def _lowered_for(self, server_id: str, need: Need) -> dict[str, float] | None:
        """The highest rates, Hz, of the classes on a server at which it takes one more stream: all by one share of
        those of now, none below its least; None when these are too much.
        """
        worker, needs = self._deployment.workers[server_id], self._deployment.needs
        if len(worker.kind.components) > 1:
            return self._lowered_by_bisection(server_id, need)
        if not need.is_goal:
            return None  # its rate and its neighbours' are fixed
        calls = {self._task: need.calls_per_action}  # per action, of all streams of a class
        for load in worker.loads:
            each = needs[load.task, load.component].calls_per_action
            calls[load.task] = calls.get(load.task, 0.0) + each * load.streams
        tightest_ms = min(worker.tightest_ms, need.slo_ms)
        room_hz = self._deployment.catalog.capacity_hz(need.model, need.component, tightest_ms)
        rates = self.rates_hz
        lowered: dict[str, float] = {}
        while calls and room_hz > 0:
            share = min(1.0, room_hz / sum(each * rates[name] for name, each in calls.items()))
            stuck = [name for name in calls if share * rates[name] < self._least[name]]
            for name in stuck or list(calls):
                lowered[name] = self._lowered(name, rates[name], share)
                room_hz -= calls.pop(name) * lowered[name]
            if not stuck:
                return lowered
        return lowered if room_hz >= 0 and not calls else None

    def _lowered_by_bisection(self, server_id: str, need: Need) -> dict[str, float] | None:
        """The same for a server of several components, whose loads add up differently under each batching."""
        needs = self._deployment.needs
        loads = (self._joined.get(server_id) or self._deployment.workers[server_id]).loads
        names = {load.task for load in loads if needs[load.task, load.component].is_goal}
        names |= {self._task} if need.is_goal else set()

        def at(share: float) -> dict[str, float]:
            return {name: self._lowered(name, self.rates_hz[name], share) for name in names}

        share = _highest_share(lambda each: self._with_stream(server_id, need, at(each)) is not None)
        return None if share is None else at(share)

    def _with_stream(self, server_id: str, need: Need, lowered_hz: Mapping[str, float]) -> Worker | None:
        """A server with one more stream, at rates of which some are lowered; None when an SLO breaks."""
        deployment, rates = self._deployment, {**self.rates_hz, **lowered_hz}
        before = self._joined.get(server_id) or deployment.workers[server_id]
        stream = Load(self._task, need.component, 1, need.rate_hz(rates[self._task]), need.slo_ms)
        loads = plus(before.loads, stream)
        if rates != self._full:
            loads = at_rates(loads, deployment, rates)
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

    def _no_room(self, need: Need) -> str:
        catalog, rate_hz = self._deployment.catalog, need.rate_hz(self.rates_hz[self._task])
        capacity = catalog.capacity_hz(need.model, need.component, need.slo_ms)
        return (
            f"no server with {need.component} has room for {rate_hz:.3g} req/s more at"
            f" {catalog.options.slo_statistic} {need.slo_ms:g} ms (one serves {capacity:.3g} req/s)"
        )

    # --- rounds

    def _settle(self, start_hz: Mapping[str, float], share: float) -> str:
        """Takes rates from `start_hz`, those on the joined servers at a share of it, and lets them fall to what rounds
        allow. That lowers loads and latencies, so it stays feasible.
        """
        deployment = self._deployment
        beside = {
            load.task
            for worker in self._joined.values()
            for load in worker.loads
            if deployment.needs[load.task, load.component].is_goal
        }
        rates = dict(start_hz)
        for name in beside:
            rates[name] = self._lowered(name, rates[name], share)
        everything = {**deployment.workers, **self._joined}
        other = {name for name, rate in rates.items() if rate != self._full[name]}
        changed = self._joined | at_other_rates(deployment, everything, rates, other)
        everything |= changed
        latency = latencies_ms(everything.values(), beside)
        longer = set()
        for name in beside:
            loop_hz = loop_rate_hz(self._classes[name], latency)
            if loop_hz < self._least[name] * (1 - 1e-9):
                return (
                    f"{name}: its longer rounds allow {loop_hz:.3f} Hz instead of {self._full[name]:.3f} Hz"
                )
            if loop_hz * (1 + 1e-9) < rates[name]:
                rates[name] = loop_hz
                longer.add(name)
        if longer:
            changed |= at_other_rates(deployment, everything, rates, longer)
        self.rates_hz, self.changed = rates, changed
        return ""


def _highest_share(fits: Callable[[float], bool]) -> float | None:
    """The highest share below 1 that fits, where lower ones fit too; in finer steps towards 1. None when 0 does not.

    The last one that fitted when it was asked is the answer.
    """
    if not fits(0.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        if fits(1 - (1 - middle) ** 2):
            low = middle
        else:
            high = middle
    return 1 - (1 - low) ** 2


def _new_name(deployment: Deployment, task: str) -> str:
    index = deployment.classes[task].robots
    while f"{task}/{index}" in deployment.schedule.routing:
        index += 1
    return f"{task}/{index}"
