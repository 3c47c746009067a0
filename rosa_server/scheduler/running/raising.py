"""Rates below the planned ones rise again when there is room, on the placement and the routes that are there.

Rates rise towards the planned ones and no further: a plan weighs the classes against each other, and room beyond it is
for the next plan to share out. Candidates are judged by latencies alone, several times faster than by full assessments,
as the gateway waits for the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from rosa_server.scheduler.placement.placement import Worker, loop_rate_hz
from rosa_server.scheduler.profiles.catalog import Load
from rosa_server.scheduler.running.deployment import Deployment, at_other_rates

FIRST = 1.01  # a class that cannot rise by this is left alone
STEPS = 4  # of bisection between this and the most it may have
ENOUGH = 40  # looks at servers: in a large factory one class may rise at a change, in a small one all


@dataclass(frozen=True)
class _Server:
    """A worker that goal-coupled requests use, with what decides its latencies."""

    worker: Worker
    needs: tuple[tuple[Load, float, float], ...]  # a load, its calls per action, its fixed rate in Hz


@dataclass(frozen=True)
class _Trial:
    """Rates that hold every SLO and equation (4)."""

    rates_hz: dict[str, float]
    latency_ms: dict[str, Mapping[str, float]]  # server -> component -> loop latency
    waiting_ms: dict[tuple[str, str], float]  # (task, component) -> the sum over its streams


def raised(deployment: Deployment, workers: dict[str, Worker]) -> tuple[dict[str, float], dict[str, Worker]]:
    """Rates from those of now up to the planned ones, as SLOs and equation (4) allow, and the workers under them.

    All planned rates at once if they fit, as they do when only planned robots are left, where they were planned. Else
    class by class, the one that has lost most of its plan first, until that was work enough: the gateway waits.
    `workers` are those of the deployment after a change, at its rates.
    """
    planned = deployment.planned.rates_hz
    rates = deployment.rates_hz
    lost = {
        cls.name: rates[cls.name] / planned[cls.name]
        for cls in deployment.problem.classes
        if cls.robots and rates[cls.name] < planned[cls.name] * (1 - 1e-6)
    }
    if not lost:
        return rates, workers
    higher = _higher(_Rise(deployment, workers), planned, sorted(lost, key=lambda name: lost[name]))
    risen = {name for name in lost if higher[name] > rates[name]}
    return higher, workers | at_other_rates(deployment, workers, higher, risen)


def _higher(rise: _Rise, planned_hz: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Rates after raising these classes, all of them to the plan or one after the other."""
    best = rise.to({name: planned_hz[name] for name in names}, rise.now)
    if best is not None:
        return best.rates_hz
    best = rise.now
    for name in names:
        best = rise.towards(name, planned_hz[name], best)
        if best is not rise.now and rise.looks > ENOUGH:
            break
    return best.rates_hz


class _Rise:
    """Attempts to raise rates on given workers."""

    def __init__(self, deployment: Deployment, workers: Mapping[str, Worker]) -> None:
        self._catalog = deployment.catalog
        self._classes = {cls.name: cls for cls in deployment.problem.classes if cls.robots}
        self._servers: dict[str, _Server] = {}
        self._of_class: dict[str, list[str]] = {name: [] for name in self._classes}
        for key, worker in workers.items():
            needs = [(load, deployment.needs[load.task, load.component]) for load in worker.loads]
            if any(need.is_goal for _, need in needs):
                parts = tuple((load, need.calls_per_action, need.freq_hz) for load, need in needs)
                self._servers[key] = _Server(worker, parts)
                for name in {load.task for load, need in needs if need.is_goal}:
                    self._of_class[name].append(key)
        self.looks = 0  # at servers, so far
        latency: dict[str, Mapping[str, float]] = {
            key: server.worker.state.loop_ms for key, server in self._servers.items()
        }
        waiting: dict[tuple[str, str], float] = {}
        for key, server in self._servers.items():
            for load, _, _ in server.needs:
                each = load.streams * latency[key][load.component]
                waiting[load.task, load.component] = waiting.get((load.task, load.component), 0.0) + each
        self.now = _Trial(deployment.rates_hz, latency, waiting)

    def towards(self, name: str, most_hz: float, start: _Trial) -> _Trial:
        """One class as near to a rate as can be."""
        low = min(most_hz, FIRST * start.rates_hz[name])
        best = self.to({name: low}, start)
        if best is None:
            return start
        if low == most_hz:
            return best
        whole = self.to({name: most_hz}, best)
        if whole is not None:
            return whole
        high = min(most_hz, self._allowed_hz(name, best))
        for _ in range(STEPS):
            middle = (low + high) / 2
            found = self.to({name: middle}, best)
            if found is None:
                high = middle
            else:
                best, low = found, middle
        return best

    def to(self, higher_hz: Mapping[str, float], start: _Trial) -> _Trial | None:
        """These classes at these rates; None when an SLO or equation (4) breaks for anybody."""
        if any(rate > self._allowed_hz(name, start) * (1 + 1e-9) for name, rate in higher_hz.items()):
            return None  # no need to look at servers
        rates = {**start.rates_hz, **higher_hz}
        latency, waiting = dict(start.latency_ms), dict(start.waiting_ms)
        touched: set[str] = set()
        for key in dict.fromkeys(key for name in higher_hz for key in self._of_class[name]):
            found = self._latencies(self._servers[key], rates)
            if found is None:
                return None
            for load, _, _ in self._servers[key].needs:
                longer = found[load.component] - latency[key][load.component]
                waiting[load.task, load.component] += load.streams * longer
                touched.add(load.task)
            latency[key] = found
        if any(rates[name] > self._loop_hz(name, waiting) * (1 + 1e-9) for name in touched):
            return None
        return _Trial(rates, latency, waiting)

    def _allowed_hz(self, name: str, start: _Trial) -> float:
        """What a class cannot exceed: its loop rate at latencies that higher rates only make longer. Nothing is known
        where components share servers: there more load may mean less latency for one of them.
        """
        if self._catalog.options.share_components:
            return inf
        return self._loop_hz(name, start.waiting_ms)

    def _loop_hz(self, name: str, waiting_ms: Mapping[tuple[str, str], float]) -> float:
        """Equation (4)."""
        cls = self._classes[name]  # every robot has one stream of each component
        return loop_rate_hz(
            cls, {(name, n.component): waiting_ms[name, n.component] / cls.robots for n in cls.goals}
        )

    def _latencies(self, server: _Server, rates: Mapping[str, float]) -> Mapping[str, float] | None:
        """Component -> loop latency of a server at these action rates; None when it breaks an SLO."""
        self.looks += 1
        worker = server.worker
        if len(worker.kind.components) > 1:
            state = self._catalog.assess(worker.kind.model, _at(server.needs, rates))
            return None if state is None else state.loop_ms
        total_hz = 0.0
        for load, calls, fixed in server.needs:
            total_hz += load.streams * (calls * rates[load.task] + fixed)
        (component,) = worker.kind.components
        best = self._catalog.least_loop(worker.kind.model, component, total_hz, worker.tightest_ms)
        return None if best is None else {component: best[1] + self._catalog.options.network_ms}


def _at(needs: Sequence[tuple[Load, float, float]], rates: Mapping[str, float]) -> list[Load]:
    return [
        Load(load.task, load.component, load.streams, calls * rates[load.task] + fixed, load.slo_ms)
        for load, calls, fixed in needs
    ]
