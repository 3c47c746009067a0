"""What the shipped policy achieves in physics by execution horizon, rest and latency, and draws from it.

A piece is one task on one cell. A trial says how its piece ended and after how many chunks, a part of the last one
included. Rest is how long the arm had held still before each look: a look at an arm that still trails its last setpoint
makes a shorter chunk of motion. Pieces are drawn by rank: a piece is as hard in another cell of the table as its rank.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from pathlib import Path
from random import Random
from typing import Any

Z_95 = 1.96


@dataclass(frozen=True)
class PieceTrial:
    """One piece in physics: whether it was done, and after how many chunks it ended."""

    done: bool
    rounds: float


Column = tuple[tuple[float, PieceTrial], ...]  # by ms, ascending


@dataclass(frozen=True)
class Piece:
    """One piece that was drawn: the trial of its rank for every time that the arm had rested before each look, and for
    every latency when it had not."""

    by_rest: Column
    by_latency: Column

    def share(self, rested_ms: float, latency_ms: float) -> float:
        """How much of the piece one chunk is: of an arm that had rested so long before its look, with an observation
        that is so old when the chunk begins. Linear in between; the longer the rest, the less the latency matters."""
        share = _at(self.by_rest, rested_ms)
        resting_ms = self.by_rest[-1][0]
        moving = max(0.0, 1 - rested_ms / resting_ms) if resting_ms else 1.0
        usual = 1 / self.by_rest[0][1].rounds
        return share * (1 + moving * (_at(self.by_latency, latency_ms) / usual - 1))

    def done(self, rested_ms: float) -> bool:
        """Whether it ends well, by the nearest time of rest."""
        return min(self.by_rest, key=lambda point: abs(point[0] - rested_ms))[1].done


def _at(column: Column, ms: float) -> float:
    """Share of a piece in one chunk, linear between what was measured and constant beyond."""
    points = [(at_ms, 1 / trial.rounds) for at_ms, trial in column]
    if ms <= points[0][0]:
        return points[0][1]
    for (low_ms, low), (high_ms, high) in pairwise(points):
        if ms <= high_ms:
            return low + (high - low) * (ms - low_ms) / (high_ms - low_ms)
    return points[-1][1]


class Table:
    """Trials by (steps of the execution horizon, rest before each look in ms, latency in ms)."""

    def __init__(self, trials: Mapping[tuple[int, float, float], Sequence[PieceTrial]]) -> None:
        """Raises `ValueError` where the cells of one horizon have different numbers of trials, or none, or where no
        latency was measured both with and without rest."""
        self._columns: dict[
            int, tuple[list[tuple[float, list[PieceTrial]]], list[tuple[float, list[PieceTrial]]]]
        ] = {}
        for steps in sorted({steps for steps, _, _ in trials}):
            cells = {key[1:]: found for key, found in trials.items() if key[0] == steps}
            counts = {len(found) for found in cells.values()}
            if len(counts) != 1 or 0 in counts:
                raise ValueError(f"{steps} steps: expected as many trials in every cell, got {counts}")
            usual = [ms for rest_ms, ms in cells if rest_ms] or [ms for _, ms in cells]
            if (0.0, usual[0]) not in cells or (len(set(usual)) != 1 and any(rest for rest, _ in cells)):
                raise ValueError(
                    f"{steps} steps: expected one latency at which rests were measured, got {usual}"
                )
            rests = [(rest, _ranked(cells[rest, ms])) for rest, ms in sorted(cells) if ms == usual[0]]
            latencies = [(ms, _ranked(cells[rest, ms])) for rest, ms in sorted(cells) if not rest]
            self._columns[steps] = (rests, latencies)

    @classmethod
    def read(cls, path: Path) -> Table:
        """From the file of the benchmark's trials."""
        cells = json.loads(path.read_text(encoding="utf-8"))["trials"]
        found = {
            (c["steps"], c["rest_ms"], c["latency_ms"]): [PieceTrial(*one) for one in c["trials"]]
            for c in cells
        }
        return cls(found)

    @property
    def horizons(self) -> tuple[int, ...]:
        """The measured horizons, in steps."""
        return tuple(self._columns)

    @property
    def pieces(self) -> int:
        """Trials of one cell; of the shortest horizon's where they differ."""
        return len(next(iter(self._columns.values()))[0][0][1])

    def error(self, steps: int) -> float:
        """Standard error of the mean rounds, as a share of them, without rest."""
        rounds = [trial.rounds for trial in self._columns[steps][0][0][1]]
        mean = sum(rounds) / len(rounds)
        variance = sum((one - mean) ** 2 for one in rounds) / max(1, len(rounds) - 1)
        return sqrt(variance / len(rounds)) / mean

    def draw(self, steps: int, random: Random) -> Piece:
        """A piece for robots that execute this number of steps of each chunk."""
        if steps not in self._columns:
            known = ", ".join(map(str, self._columns))
            raise ValueError(f"no trials with an execution horizon of {steps} steps; there are {known}")
        rests, latencies = self._columns[steps]
        rank = random.randrange(len(rests[0][1]))
        return Piece(
            tuple((ms, ranked[rank]) for ms, ranked in rests),
            tuple((ms, ranked[rank]) for ms, ranked in latencies),
        )


def _ranked(found: Sequence[PieceTrial]) -> list[PieceTrial]:
    return sorted(found, key=lambda trial: (not trial.done, trial.rounds))


def wilson(good: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, `good` of `count`."""
    share = good / count
    middle = share + Z_95**2 / (2 * count)
    spread = Z_95 * sqrt(share * (1 - share) / count + (Z_95 / count) ** 2 / 4)
    scale = 1 + Z_95**2 / count
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def summary(steps: int, rest_ms: float, latency_ms: float, trials: Sequence[PieceTrial]) -> dict[str, Any]:
    """One row: success with its 95 % interval (Wilson), rounds of a success with theirs."""
    count, good = len(trials), [trial.rounds for trial in trials if trial.done]
    share = len(good) / count
    low, high = wilson(len(good), count)
    mean = sum(good) / len(good) if good else 0.0
    deviation = sqrt(sum((one - mean) ** 2 for one in good) / (len(good) - 1)) if len(good) > 1 else 0.0
    return {
        "steps": steps,
        "rest_ms": rest_ms,
        "latency_ms": latency_ms,
        "pieces": count,
        "success": round(share, 4),
        "success_95": [round(low, 4), round(high, 4)],
        "rounds": round(mean, 2),
        "rounds_95": round(Z_95 * deviation / sqrt(max(1, len(good))), 2),
    }
