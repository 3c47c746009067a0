"""Branch and bound over class rates, with whole streams inside: the search behind solve.py (ours).

The rates that some placement carries are closed downwards: at lower rates loads and latencies are no higher, so every
SLO and equation (4) still hold. A box of rates [low, high] therefore

- holds no schedule if the integer program over server mixes finds none with loads and latencies at `low`;
- holds none better than that program's optimum, where equation (4), W <= 1/f - t, has its W at `low` and 1/f replaced
  by its chord over the box, which lies above it;
- holds none better than the relaxation of search/relaxation.py with rates in the box;
- and gives a schedule, since what the program finds carries `low`; its rates are then raised as far as they go.

Boxes are split until none can hold a schedule better than the best one by more than the tolerance. There is no grid of
rates: what is proved holds for all real rates, up to that tolerance.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from itertools import count, pairwise

from ortools.linear_solver import pywraplp

from rosa_server.scheduler.bisection import furthest
from rosa_server.scheduler.exact.mixes import ChosenMix, Program, ServerMixes
from rosa_server.scheduler.placement.packing import SLACK
from rosa_server.scheduler.placement.pool import Pool
from rosa_server.scheduler.placement.servers import (
    PlacedServer,
    latencies_ms,
    loop_rate_hz,
    placed_servers,
)
from rosa_server.scheduler.problem import TaskClass
from rosa_server.scheduler.search.fairness import Candidate, Rates
from rosa_server.scheduler.search.relaxation import relax

NARROW = 1.1  # best / worst objective in a box below which the integer program says more than the relaxation
PROGRAM_S = 5.0
BISECTIONS = 16  # per direction in which rates are raised


class Search:
    """Best-first branch and bound; `best` is the best schedule found, if it is better than the one to beat."""

    def __init__(self, pool: Pool, goals: list[ServerMixes], to_beat: float) -> None:
        self.pool, self.goals = pool, goals
        self.catalog, self.problem = pool.catalog, pool.problem
        self.value = to_beat
        self.best: Candidate | None = None
        self.boxes = 0
        problem = pool.problem
        self._floors = problem.min_rates_hz
        self._tops = {name: fastest * (1 + SLACK) for name, fastest in pool.fastest_hz.items()}
        self._by_value = sorted(
            problem.classes, key=lambda c: -c.weight / sum(n.calls_per_action for n in c.goals)
        )
        self._twins = [
            (a, b)
            for a, b in pairwise(
                sorted(problem.classes, key=lambda c: (repr(c.goals), repr(replace(c, name="", needs=()))))
            )
            if _identical(a, b)
        ]

    def starts(self) -> bool:
        """Whether a schedule carries the minimum rates, as any schedule does, and is found in PROGRAM_S."""
        program = self._program(self._floors, self._floors)
        if program.solve(PROGRAM_S) not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
            return False
        self._keep(program, self._floors, self._tops)
        return self.best is not None

    def run(self, seconds_left: Callable[[], float]) -> float:
        """Searches until nothing better by the tolerance is left, or time is up; what no schedule exceeds."""
        number, closed = count(), 0.0  # closed: what no schedule in the boxes that were dropped exceeds
        above = self._relaxed(self._floors, self._tops)
        open_boxes = [(-above, next(number), self._floors, self._tops)]
        while open_boxes and seconds_left() > 0 and self._open(-open_boxes[0][0]):
            above, _, low, high = heapq.heappop(open_boxes)
            for half in self._halves(low, high):
                closed = max(closed, self._enough())
                tight = self._tightened(*half)
                bound = 0.0 if tight is None else self._examine(*tight, -above, seconds_left())
                if tight is not None and self._open(bound):
                    heapq.heappush(open_boxes, (-bound, next(number), *tight))
        return max(self.value, closed, -open_boxes[0][0] if open_boxes else 0.0)

    def _enough(self) -> float:
        return self.value * (1 + self.catalog.options.tolerance)

    def _open(self, bound: float) -> bool:
        return bound > self._enough()

    def _halves(self, low: Rates, high: Rates) -> list[tuple[Rates, Rates]]:
        """The box cut where it is worth most; of identical classes the first has the higher rate."""
        wide = max(
            self.problem.classes, key=lambda c: c.weight * c.robots * (high[c.name] - low[c.name])
        ).name
        middle = (low[wide] + high[wide]) / 2
        halves = [(low, {**high, wide: middle}), ({**low, wide: middle}, high)]
        for a, b in self._twins:
            halves = [
                (
                    {**lows, a.name: max(lows[a.name], lows[b.name])},
                    {**highs, b.name: min(highs[a.name], highs[b.name])},
                )
                for lows, highs in halves
            ]
        return [(lows, highs) for lows, highs in halves if all(lows[name] <= highs[name] for name in lows)]

    def _tightened(self, low: Rates, high: Rates) -> tuple[Rates, Rates] | None:
        """The part of a box where something better can be: no class too slow for what the others add at most."""
        spare = self.problem.objective(high) - self._enough()
        if spare <= 0:
            return None
        worth = {cls.name: cls.weight * cls.robots for cls in self.problem.classes}
        return {name: max(low[name], high[name] - spare / worth[name]) for name in low}, high

    def _relaxed(self, low: Rates, high: Rates) -> float:
        """The bound by the linear program; 0 when even that is infeasible."""
        found = relax(self.pool, low, ceilings_hz=high)
        return 0.0 if found is None else found.objective

    def _examine(self, low: Rates, high: Rates, above: float, seconds: float) -> float:
        """What no schedule in the box exceeds, or may be left for. Keeps a better schedule if it meets one."""
        self.boxes += 1
        bound = min(above, self._relaxed(low, high))
        wide = self.problem.objective(high) > NARROW * self.problem.objective(low)
        if wide or not self._open(bound):
            return bound
        program = self._program(low, high)
        status = program.solve(min(PROGRAM_S, max(seconds, 0.001)), self.catalog.options.tolerance / 2)
        if status == pywraplp.Solver.INFEASIBLE:
            return min(bound, self._enough())
        if status in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
            self._keep(program, low, high)
            bound = min(bound, program.solver.Objective().BestBound())
        return bound

    def _program(self, low: Rates, high: Rates) -> Program:
        program = Program(self.catalog, self.goals, low, self.pool.servers)
        solver = program.solver
        rates = {name: solver.NumVar(low[name], high[name], name) for name in low}
        for cls in self.problem.classes:
            lowest, highest = low[cls.name], high[cls.name]
            if lowest <= 0:
                continue  # the chord of 1/f is infinite there: nothing is said about the round
            round_s = (1 / lowest + 1 / highest - rates[cls.name] / (lowest * highest)) * (1 + SLACK)
            solver.Add(solver.Sum(program.waiting[cls.name]) <= round_s - cls.action_s)
        for a, b in self._twins:
            solver.Add(rates[a.name] >= rates[b.name])
        value = solver.Sum([c.weight * c.robots * rates[c.name] for c in self.problem.classes])
        solver.Add(value >= self._enough())  # what is no better need not be looked at
        solver.Maximize(value)
        return program

    def _keep(self, program: Program, low: Rates, high: Rates) -> None:
        """The program's placement carries `low`; its rates are raised together towards `high`, then one by one."""
        mixes = program.chosen()
        rates = low
        for goal in [high, *({cls.name: self._tops[cls.name]} for cls in self._by_value)]:
            rates = self._raised(mixes, rates, {**rates, **goal})
        placed = self._placed(mixes, rates)
        if placed is not None and self.problem.objective(rates) > self.value:
            self.value, self.best = self.problem.objective(rates), Candidate(rates, placed)

    def _raised(self, mixes: list[ChosenMix], low: Rates, high: Rates) -> Rates:
        """The furthest rates on the way from `low` to `high` that a placement carries."""

        def rates_at(share: float) -> Rates:
            return {name: low[name] + share * (high[name] - low[name]) for name in low}

        def carried(share: float) -> bool:
            return self._placed(mixes, rates_at(share)) is not None

        return rates_at(furthest(carried, 0.0, 1.0, BISECTIONS))

    def _placed(self, mixes: list[ChosenMix], rates: Rates) -> list[PlacedServer] | None:
        """The servers of a placement at these rates, or None where an SLO or equation (4) does not hold."""
        placed: list[PlacedServer] = []
        for mix in mixes:
            identical = placed_servers(self.catalog, mix.mixes.kind, [mix.mixes.loads(mix.number, rates)])
            if identical is None:
                return None
            placed += identical * mix.servers
        latency = latencies_ms(placed)
        keeps = all(rates[c.name] <= loop_rate_hz(c, latency) * (1 + SLACK) for c in self.problem.classes)
        return placed if keeps else None


def _identical(a: TaskClass, b: TaskClass) -> bool:
    """Whether exchanging the rates and servers of two classes changes nothing but their names."""
    return replace(a, name="", needs=a.goals) == replace(b, name="", needs=b.goals)
