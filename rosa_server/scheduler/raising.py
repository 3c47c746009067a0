"""Rates below the planned ones rise again when there is room, on the placement and the routes that are there.

Rates rise towards the planned ones and no further: a plan weighs the classes against each other, and room beyond it is
for the next plan to share out. Candidates are judged by latencies alone, several times faster than by full assessments,
as this runs while robots wait for their answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rosa_server.scheduler.catalog import Load
from rosa_server.scheduler.deployment import Deployment, at_rates, with_loads
from rosa_server.scheduler.placement import Worker, loop_rate_hz

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


def raised(
    deployment: Deployment, workers: Mapping[str, Worker], most_hz: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, Worker]]:
    """Rates from those of now up to `most_hz`, as SLOs and equation (4) allow, and the workers under them.

    All of `most_hz` at once if it fits, as planned rates do when only planned robots are left. Else class by class, the
    one that has lost most of its plan first, until that was work enough: a robot waits for its answer. `workers` are
    those of the deployment after a change; their loads may be at other rates, and are at the answer's afterwards.
    """
    planned = deployment.planned.rates_hz
    rates = deployment.rates_hz
    lost = {
        cls.name: rates[cls.name] / planned[cls.name]
        for cls in deployment.problem.classes
        if cls.robots and rates[cls.name] < most_hz[cls.name] * (1 - 1e-6)
    }
    if lost:
        rates = _higher(_Rise(deployment, workers), most_hz, sorted(lost, key=lambda name: lost[name]))
    contents = {key: at_rates(worker.loads, deployment, rates) for key, worker in workers.items()}
    changed = {key: loads for key, loads in contents.items() if loads != workers[key].loads}
    found = with_loads(deployment, changed)
    assert found is not None, "every SLO was looked at"
    return rates, {**workers, **found}


def _higher(rise: _Rise, most_hz: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Rates after raising these classes, all of them to the most or one after the other."""
    best = rise.to({name: most_hz[name] for name in names}, rise.now)
    if best is not None:
        return best.rates_hz
    best = rise.now
    for name in names:
        best = rise.towards(name, most_hz[name], best)
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
        latency = {key: self._now(server, deployment.rates_hz) for key, server in self._servers.items()}
        waiting: dict[tuple[str, str], float] = {}
        for key, server in self._servers.items():
            for load in server.worker.loads:
                each = load.streams * latency[key][load.component]
                waiting[load.task, load.component] = waiting.get((load.task, load.component), 0.0) + each
        self.now = _Trial(dict(deployment.rates_hz), dict(latency), waiting)

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
        high = most_hz
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
        for name in touched:
            cls = self._classes[name]
            means = {
                (name, n.component): waiting[name, n.component] / cls.robots for n in cls.goals
            }  # every robot has one stream of each
            if rates[name] > loop_rate_hz(cls, means) * (1 + 1e-9):
                return None
        return _Trial(rates, latency, waiting)

    def _now(self, server: _Server, rates: Mapping[str, float]) -> Mapping[str, float]:
        if all(load.rate_hz == calls * rates[load.task] + fixed for load, calls, fixed in server.needs):
            return server.worker.state.loop_ms
        found = self._latencies(server, rates)
        assert found is not None, "lower rates cannot break an SLO"
        return found

    def _latencies(self, server: _Server, rates: Mapping[str, float]) -> Mapping[str, float] | None:
        """Component -> loop latency of a server at these action rates; None when it breaks an SLO."""
        self.looks += 1
        worker = server.worker
        if len(worker.kind.components) > 1:
            state = self._catalog.assess(worker.kind.model, _at(server.needs, rates))
            return None if state is None else state.loop_ms
        total_hz = sum(
            load.streams * (calls * rates[load.task] + fixed) for load, calls, fixed in server.needs
        )
        tightest_ms = min(load.slo_ms for load, _, _ in server.needs)
        (component,) = worker.kind.components
        best = self._catalog.least_loop(worker.kind.model, component, total_hz, tightest_ms)
        return None if best is None else {component: best[1] + self._catalog.options.network_ms}


def _at(needs: Sequence[tuple[Load, float, float]], rates: Mapping[str, float]) -> list[Load]:
    return [
        Load(load.task, load.component, load.streams, calls * rates[load.task] + fixed, load.slo_ms)
        for load, calls, fixed in needs
    ]
