"""Placement-preserving admission of one robot (ROSA 3.4.4).

No weights move. The new robot is routed to servers that run already; batching may change, and where needed
the action rates of the classes it shares servers with, down to their minimum. Lower rates only lower loads
and latencies elsewhere, so checking the servers that the robot joins is enough: this is why admission is
fast. They fall by coarse steps, and what that was too much is given back (`raising.py`), as far as time allows. What
admission takes is measured against the plan, however many robots came before; `removal.py` gives it back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rosa_server.scheduler.catalog import Load
from rosa_server.scheduler.deployment import Deployment, at_rates, committed, plus, with_class, with_loads
from rosa_server.scheduler.placement import Worker, latencies_ms, loop_rate_hz
from rosa_server.scheduler.problem import Need, TaskClass
from rosa_server.scheduler.raising import raised

SHARES = (0.98, 0.95, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2)  # rates are lowered to the first that makes room
LEAST_SHARE = (
    0.2  # admission does not push a class below this part of its planned rate: rescheduling does better
)
Joined = tuple[dict[str, str], dict[str, Worker], dict[str, float]]  # routes, changed workers, rates
POOR_EFFICIENCY = 0.05  # of what the planned robots gain in equation (1); a larger loss asks for rescheduling


@dataclass(frozen=True)
class Blocked:
    """Why a robot cannot join, and whether lower action rates would not help."""

    words: str
    at_any_rate: bool


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
    best = joining.at(1.0)
    blocked = best.words if isinstance(best, Blocked) else ""
    if isinstance(best, Blocked) and not best.at_any_rate:
        best = _highest(joining)
    if isinstance(best, Blocked):
        return Admission(False, robot, deployment, f"{task}: {best.words}; needs global rescheduling", True)
    targets, changed, rates = best
    routing = {**deployment.schedule.routing, robot: targets}
    if any(rate < full[name] for name, rate in rates.items()):  # in steps: there may be room left
        fleet = replace(deployment, problem=problem, rates_hz=rates)
        # No further than before: whoever comes and leaves at once has lowered nobody's rate by leaving.
        rates, workers = raised(fleet, {**deployment.workers, **changed}, full)
        changed = {key: worker for key, worker in workers.items() if worker is not deployment.workers[key]}
    after = committed(deployment, problem, changed, rates, routing)
    after = replace(after, undo=(robot, replace(deployment, undo=None)))
    poor = after.schedule.objective < (1 - POOR_EFFICIENCY) * after.planned.objective(problem)
    reason = f"{robot} joins {', '.join(f'{c}: {s}' for c, s in targets.items())}"
    fallen = [
        f"{n} {full[n]:.2f} to {rate:.2f} Hz" for n, rate in rates.items() if rate < full[n] * (1 - 1e-6)
    ]
    if fallen:
        reason += f"; rates fall: {', '.join(fallen)}" + (f", as {blocked}" if blocked else "")
    return Admission(True, robot, after, reason, poor)


def _highest(joining: _Joining) -> Joined | Blocked:
    """The first of `SHARES` that makes room: usually the very first; else by bisection, as lower ones fit too."""
    best = joining.at(SHARES[0])
    if not isinstance(best, Blocked):
        return best
    low, high = 1, len(SHARES)
    while low < high:
        middle = (low + high) // 2
        found = joining.at(SHARES[middle])
        if isinstance(found, Blocked):
            low = middle + 1
            best = found if isinstance(best, Blocked) else best
        else:
            high = middle
            best = found
    return best


class _Joining:
    """One robot's attempts to join, at one share of the rates after the other."""

    def __init__(self, deployment: Deployment, cls: TaskClass, full: dict[str, float]) -> None:
        """`cls` counts the robot already; `full` holds the rates, Hz, that may be lowered."""
        self._deployment, self._cls, self._full = deployment, cls, full
        self._least = {
            name: max(each.min_rate_hz, LEAST_SHARE * deployment.planned.rates_hz[name])
            for name, each in deployment.classes.items()
        }
        self._needs = sorted(
            cls.needs, key=lambda need: need.is_goal
        )  # obligations: no rate makes room for them
        self._obliged: dict[str, tuple[str, Worker]] = {}  # where obligations go, whatever the rates
        self._ranked = {need.component: self._candidates(need) for need in cls.needs}
        self._calls = {
            need.component: {
                name: other.calls_per_action
                for name, each in deployment.classes.items()
                for other in each.needs
                if other.component == need.component
            }
            for need in cls.needs
        }

    def at(self, share: float) -> Joined | Blocked:
        """Routes, changed workers and rates when rates may fall to `share`; or what is in the way."""
        deployment, cls, full = self._deployment, self._cls, self._full
        rates = {**full, cls.name: self._lowered(cls.name, share)}
        targets: dict[str, str] = {}
        changed: dict[str, Worker] = {}
        for need in self._needs:
            if need.component in self._obliged:
                targets[need.component], worker = self._obliged[need.component]
                changed[targets[need.component]] = worker
                continue
            found = self._join_one(need, rates, share, changed)
            if found is None:
                capacity = deployment.catalog.capacity_hz(need.model, need.component, need.slo_ms)
                words = (
                    f"no server with {need.component} has room for {need.rate_hz(rates[cls.name]):.3g} req/s more at"
                    f" {deployment.catalog.options.slo_statistic} {need.slo_ms:g} ms (one serves {capacity:.3g} req/s)"
                )
                return Blocked(
                    words, at_any_rate=not need.is_goal and not deployment.catalog.options.share_components
                )
            targets[need.component], worker, rates = found
            changed[targets[need.component]] = worker
            if not need.is_goal and not deployment.catalog.options.share_components:
                self._obliged[need.component] = targets[need.component], worker
        if share < 1:  # a class lowered for a later component is lowered for the earlier ones too
            contents = {key: at_rates(worker.loads, deployment, rates) for key, worker in changed.items()}
            again = with_loads(deployment, contents)
            assert again is not None, "lower rates cannot break an SLO"
            changed = again
        everything = [changed.get(key, worker) for key, worker in deployment.workers.items()]
        latency = latencies_ms([worker for worker in everything if worker.loads])
        settled = dict(rates)  # longer rounds lower rates, which lowers loads and latencies: always feasible
        for name in {load.task for worker in changed.values() for load in worker.loads}:
            other = cls if name == cls.name else deployment.classes[name]
            loop = loop_rate_hz(other, latency)
            settled[name] = min(rates[name], loop)
            if settled[name] < self._least[name] * (1 - 1e-9):
                return Blocked(
                    f"{name}: its longer rounds allow {loop:.3f} Hz instead of {full[name]:.3f} Hz", False
                )
        return targets, changed, settled

    def _lowered(self, name: str, share: float) -> float:
        """A class's rate, Hz, at a share of that of now, if it may fall so far."""
        return min(self._full[name], max(self._least[name], share * self._full[name]))

    def _candidates(self, need: Need) -> list[str]:
        """The servers of a component: those that serve the task already, the least loaded first, then the others."""
        ranked = []
        for server_id, worker in self._deployment.workers.items():
            if worker.kind.model == need.model and need.component in worker.kind.components:
                known = any(load.task == self._cls.name for load in worker.loads)
                used = sum(load.streams * load.rate_hz for load in worker.loads)
                ranked.append((not known, used, server_id))
        return [server_id for _, _, server_id in sorted(ranked)]

    def _join_one(
        self, need: Need, rates: dict[str, float], share: float, changed: dict[str, Worker]
    ) -> tuple[str, Worker, dict[str, float]] | None:
        """The first candidate that takes the stream, with the rates this takes."""
        deployment, name = self._deployment, self._cls.name
        catalog, calls = deployment.catalog, self._calls[need.component]
        for server_id in self._ranked[need.component]:
            worker = changed.get(server_id) or deployment.workers[server_id]
            now = rates
            if share < 1 and need.is_goal:
                now = dict(rates)
                for load in worker.loads:
                    if load.task != name:
                        now[load.task] = min(now[load.task], self._lowered(load.task, share))
            stream = Load(name, need.component, 1, need.rate_hz(now[name]), need.slo_ms)
            if len(worker.kind.components) == 1:  # a cheap look before the exact one
                used, tightest = stream.rate_hz, need.slo_ms
                for load in worker.loads:
                    used += load.streams * (
                        now[load.task] * calls[load.task] if need.is_goal else load.rate_hz
                    )
                    tightest = min(tightest, load.slo_ms)
                if used > 1.001 * catalog.capacity_hz(need.model, need.component, tightest):
                    continue
            loads = worker.loads if share == 1 else at_rates(worker.loads, deployment, now)
            assessed = with_loads(deployment, {server_id: plus(loads, stream)})
            if assessed is not None:
                return server_id, assessed[server_id], now
        return None


def _new_name(deployment: Deployment, task: str) -> str:
    index = deployment.classes[task].robots
    while f"{task}/{index}" in deployment.schedule.routing:
        index += 1
    return f"{task}/{index}"
