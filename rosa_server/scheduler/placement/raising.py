"""Raising action rates on a fixed placement: streams stay where they are, SLOs and equation (4) keep holding.

`search/polish.py` raises the rates of a placement that was just found, `running/raising.py` those that admission
lowered. Candidates are judged by latencies alone, several times faster than by full assessments: a gateway may be
waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from rosa_server.scheduler.placement.packing import SLACK
from rosa_server.scheduler.placement.servers import PlacedServer, loads_at, loop_rate_hz
from rosa_server.scheduler.problem import Problem, StreamClass
from rosa_server.scheduler.profiles.catalog import Catalog, Load


@dataclass(frozen=True)
class OperatingPoint:
    """Action rates that hold every SLO and equation (4), with the latencies that they lead to."""

    rates_hz: dict[str, float]
    latency_ms: dict[int, Mapping[str, float]]  # server -> component -> loop latency
    waiting_ms: dict[StreamClass, float]  # the sum over its streams


@dataclass(frozen=True)
class _GoalServer:
    """A server that goal-coupled requests use, with what decides its latencies."""

    placed: PlacedServer
    parts: tuple[tuple[Load, float, float], ...]  # a load, its calls per action, its fixed rate in Hz


class FixedPlacement:
    """Tries higher rates on given servers. `start` is where they are now."""

    def __init__(
        self,
        catalog: Catalog,
        problem: Problem,
        placed: Sequence[PlacedServer],
        rates_hz: Mapping[str, float],
    ) -> None:
        """`placed` are assessed at `rates_hz`."""
        self._catalog, self._problem = catalog, problem
        self._classes = {cls.name: cls for cls in problem.classes if cls.robots}
        self._servers: dict[int, _GoalServer] = {}
        self._used_by: dict[str, list[int]] = {name: [] for name in self._classes}
        for index, server in enumerate(placed):
            needs = [(load, problem.needs[load.stream_class]) for load in server.loads]
            if any(need.is_goal for _, need in needs):
                parts = tuple((load, need.calls_per_action, need.freq_hz) for load, need in needs)
                self._servers[index] = _GoalServer(server, parts)
                for name in {load.task for load, need in needs if need.is_goal}:
                    self._used_by[name].append(index)
        self.assessed = 0  # servers that were looked at so far: a measure of the work
        latency: dict[int, Mapping[str, float]] = {
            index: server.placed.state.loop_ms for index, server in self._servers.items()
        }
        waiting: dict[StreamClass, float] = {}
        for index, goal_server in self._servers.items():
            for load, _, _ in goal_server.parts:
                key = load.stream_class
                waiting[key] = waiting.get(key, 0.0) + load.streams * latency[index][load.component]
        self.start = OperatingPoint(dict(rates_hz), latency, waiting)

    def raised(self, higher_hz: Mapping[str, float], point: OperatingPoint) -> OperatingPoint | None:
        """`point` with these classes at these higher rates; None when an SLO or equation (4) breaks for any class."""
        if any(rate > self.limit_hz(name, point) * (1 + SLACK) for name, rate in higher_hz.items()):
            return None  # no need to look at servers
        rates = {**point.rates_hz, **higher_hz}
        latency, waiting = dict(point.latency_ms), dict(point.waiting_ms)
        affected: set[str] = set()
        for index in dict.fromkeys(index for name in higher_hz for index in self._used_by[name]):
            found = self._latencies_ms(self._servers[index], rates)
            if found is None:
                return None
            for load, _, _ in self._servers[index].parts:
                longer = found[load.component] - latency[index][load.component]
                waiting[load.stream_class] += load.streams * longer
                affected.add(load.task)
            latency[index] = found
        if any(rates[name] > self._loop_hz(name, waiting) * (1 + SLACK) for name in affected):
            return None
        return OperatingPoint(rates, latency, waiting)

    def limit_hz(self, name: str, point: OperatingPoint) -> float:
        """What a class cannot exceed: its loop rate at latencies that higher rates only make longer.

        Infinite where components share servers: more load there may mean less latency for one of them.
        """
        if self._catalog.options.share_components:
            return inf
        return self._loop_hz(name, point.waiting_ms)

    def _loop_hz(self, name: str, waiting_ms: Mapping[StreamClass, float]) -> float:
        """Equation (4)."""
        cls = self._classes[name]  # every robot has one stream of each component
        keys = [StreamClass(name, need.component) for need in cls.goals]
        return loop_rate_hz(cls, {key: waiting_ms[key] / cls.robots for key in keys})

    def _latencies_ms(self, server: _GoalServer, rates_hz: Mapping[str, float]) -> Mapping[str, float] | None:
        """Component -> loop latency of a server at these action rates; None when it breaks an SLO."""
        self.assessed += 1
        placed = server.placed
        if len(placed.kind.components) > 1:
            loads = loads_at(placed.loads, self._problem.needs, rates_hz)
            state = self._catalog.assess(placed.kind.model, loads)
            return None if state is None else state.loop_ms
        total_hz = 0.0
        for load, calls, fixed_hz in server.parts:
            total_hz += load.streams * (calls * rates_hz[load.task] + fixed_hz)
        (component,) = placed.kind.components
        best = self._catalog.min_loop(placed.kind.model, component, total_hz, placed.tightest_ms)
        return None if best is None else {component: best[1] + self._catalog.options.network_ms}
