"""What one server can hold: every mix of streams of a kind, and an integer program over how many servers hold which.

The program is the paper's equation (3) with mixed servers: a column per mix (streams of each class) instead of one per
class and stream count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp

from rosa_contract.errors import ConfigError
from rosa_server.scheduler.placement.packing import SLACK, ServerKind, ServerLoads
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog, Load

MAX_MIXES = 20_000  # of one kind; the program has a column for each that is feasible
TOLERANCE = 1e-9  # of the integer program's constraints
Rates = Mapping[str, float]


class ChosenMix(NamedTuple):
    """A mix in use, and on how many servers."""

    mixes: ServerMixes
    number: int  # of the mix
    servers: int


@dataclass(frozen=True)
class ServerMixes:
    """Every mix of streams that a server of one kind may hold."""

    kind: ServerKind
    demands: tuple[tuple[TaskClass, Need], ...]
    streams: NDArray[np.int64]  # (mixes, demands)
    slo_ms: NDArray[np.float64]  # (mixes,): the lowest SLO in it

    def latency_s(self, catalog: Catalog, rates_hz: Rates) -> NDArray[np.float64]:
        """Loop latency of each mix under its best batching, network included; infinite where an SLO breaks.

        Never falls when a rate rises.
        """
        per_stream = np.array([need.rate_hz(rates_hz.get(cls.name, 0.0)) for cls, need in self.demands])
        load = self.streams @ per_stream
        best = np.full(len(load), inf)
        for slo_ms in np.unique(self.slo_ms):
            same_slo = self.slo_ms == slo_ms
            for choice in catalog.configurations(self.kind.model, self.kind.components[0]):
                measured = [point.rate_hz for point in choice.latency]
                curve = [choice.latency_ms(catalog.options.loop_statistic, rate) for rate in measured]
                allowed = same_slo & (load <= catalog.cap(choice, float(slo_ms)) * (1 + SLACK))
                best[allowed] = np.minimum(best[allowed], np.interp(load[allowed], measured, curve))
        return (best + catalog.options.network_ms) / 1000

    def loads(self, index: int, rates_hz: Rates) -> ServerLoads:
        """One mix as loads."""
        return [
            Load(cls.name, need.component, int(n), need.rate_hz(rates_hz.get(cls.name, 0.0)), need.slo_ms)
            for (cls, need), n in zip(self.demands, self.streams[index], strict=True)
            if n
        ]


def server_mixes(problem: Problem, kind: ServerKind) -> ServerMixes:
    """All mixes of a kind. Raises `ConfigError` where there are too many to list."""
    demands = tuple((cls, need) for cls in problem.classes for need in cls.needs if kind.serves(need))
    shape = [cls.robots + 1 for cls, _ in demands]
    if prod(shape) > MAX_MIXES:
        words = (
            f"{prod(shape):,} mixes of streams are possible on one server of {kind.model}, at most"
            f" {MAX_MIXES:,} can be searched; take fewer tasks or robots, or `--bound` without --exact"
        )
        raise ConfigError("--exact", [words])
    streams = np.indices(shape).reshape(len(shape), -1).T[1:]
    slos = np.array([need.slo_ms for _, need in demands])
    return ServerMixes(kind, demands, streams, np.where(streams > 0, slos, inf).min(axis=1))


class Program:
    """Servers by mix: every stream exactly once, on at most `servers` servers."""

    def __init__(
        self, catalog: Catalog, kinds: Sequence[ServerMixes], rates_hz: Rates, servers: float
    ) -> None:
        self.solver = pywraplp.Solver.CreateSolver("SCIP")
        # Class -> seconds of a round spent waiting, a term per mix.
        self.waiting: dict[str, list[object]] = {}
        self._columns: list[tuple[ServerMixes, int, Any]] = []
        for mixes in kinds:
            self._add(mixes, mixes.latency_s(catalog, rates_hz))
        self.used = self.solver.Sum([count for _, _, count in self._columns])
        if servers < inf:
            self.solver.Add(self.used <= servers)

    def _add(self, mixes: ServerMixes, latency_s: NDArray[np.float64]) -> None:
        limit = [cls.robots for cls, _ in mixes.demands]
        feasible = np.flatnonzero(np.isfinite(latency_s))
        counts = []
        for index in feasible:
            row = mixes.streams[index].tolist()
            count = self.solver.IntVar(0, min(k // n for k, n in zip(limit, row, strict=True) if n), "")
            counts.append(count)
            self._columns.append((mixes, int(index), count))
        for column, (cls, need) in enumerate(mixes.demands):
            holding = [
                (y, int(mixes.streams[i, column]), float(latency_s[i]))
                for y, i in zip(counts, feasible, strict=True)
            ]
            holding = [entry for entry in holding if entry[1]]
            self.solver.Add(self.solver.Sum([y * n for y, n, _ in holding]) == cls.robots)
            weight = need.calls_per_action / cls.robots
            self.waiting.setdefault(cls.name, []).extend(
                y * (weight * n * s) for y, n, s in holding if need.is_goal
            )

    def solve(self, seconds: float, gap: float = 0.0) -> int:
        """The solver's status; it may stop where its bound is above its best solution by `gap`, relative."""
        self.solver.SetTimeLimit(max(1, int(1000 * seconds)))
        tolerances = pywraplp.MPSolverParameters()
        tolerances.SetDoubleParam(tolerances.PRIMAL_TOLERANCE, TOLERANCE)
        tolerances.SetDoubleParam(tolerances.RELATIVE_MIP_GAP, gap)
        return int(self.solver.Solve(tolerances))

    def chosen(self) -> list[ChosenMix]:
        """The mixes in use after a solve."""
        counts = [ChosenMix(mixes, index, round(y.solution_value())) for mixes, index, y in self._columns]
        return [mix for mix in counts if mix.servers]
