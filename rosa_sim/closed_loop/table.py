"""What the shipped policy achieves in physics, as a function of execution horizon and latency, and draws from it.

A piece is one task on one cell. A trial says how its piece ended and after how many chunks, a part of the last one
included. Pieces are drawn by rank: the same piece is as hard at another latency as its rank among the trials says.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from random import Random
from typing import Any

Z_95 = 1.96


@dataclass(frozen=True)
class Trial:
    """One piece in physics: whether it was done, and after how many chunks it ended."""

    done: bool
    rounds: float


@dataclass(frozen=True)
class Piece:
    """One piece that was drawn: the trial of its rank at every measured latency, in ms, ascending."""

    trials: tuple[tuple[float, Trial], ...]

    def share(self, latency_ms: float) -> float:
        """How much of the piece one chunk is whose observation was so old when it began; linear in between."""
        points = [(at_ms, 1 / trial.rounds) for at_ms, trial in self.trials]
        if latency_ms <= points[0][0]:
            return points[0][1]
        for (low_ms, low), (high_ms, high) in itertools.pairwise(points):
            if latency_ms <= high_ms:
                return low + (high - low) * (latency_ms - low_ms) / (high_ms - low_ms)
        return points[-1][1]

    def done(self, latency_ms: float) -> bool:
        """Whether it ends well, by the nearest latency."""
        return min(self.trials, key=lambda point: abs(point[0] - latency_ms))[1].done


class Table:
    """Trials by (steps of the execution horizon, latency in ms)."""

    def __init__(self, trials: Mapping[tuple[int, float], Sequence[Trial]]) -> None:
        """Raises `ValueError` where the cells of one horizon have different numbers of trials, or none."""
        self._ranked: dict[int, list[tuple[float, list[Trial]]]] = {}
        for (steps, latency_ms), found in sorted(trials.items()):
            ranked = sorted(found, key=lambda trial: (not trial.done, trial.rounds))
            self._ranked.setdefault(steps, []).append((latency_ms, ranked))
        for steps, columns in self._ranked.items():
            counts = {len(ranked) for _, ranked in columns}
            if len(counts) != 1 or 0 in counts:
                raise ValueError(f"{steps} steps: expected as many trials at every latency, got {counts}")

    @classmethod
    def read(cls, path: Path) -> Table:
        """From the file of `write_trials`."""
        cells = json.loads(path.read_text(encoding="utf-8"))["trials"]
        return cls({(c["steps"], c["latency_ms"]): [Trial(*one) for one in c["trials"]] for c in cells})

    @property
    def horizons(self) -> tuple[int, ...]:
        """The measured horizons, in steps."""
        return tuple(self._ranked)

    @property
    def pieces(self) -> int:
        """Trials of one horizon at one latency; of the first one where they differ."""
        return len(next(iter(self._ranked.values()))[0][1])

    def draw(self, steps: int, random: Random) -> Piece:
        """A piece for robots that execute so many steps of each chunk."""
        if steps not in self._ranked:
            known = ", ".join(map(str, self._ranked))
            raise ValueError(f"no trials with an execution horizon of {steps} steps; there are {known}")
        columns = self._ranked[steps]
        rank = random.randrange(len(columns[0][1]))
        return Piece(tuple((latency_ms, ranked[rank]) for latency_ms, ranked in columns))


def summary(steps: int, latency_ms: float, trials: Sequence[Trial]) -> dict[str, Any]:
    """One row: success with its 95 % interval (Wilson), rounds of a success with theirs."""
    count, good = len(trials), [trial.rounds for trial in trials if trial.done]
    share = len(good) / count
    middle, spread = (
        share + Z_95**2 / (2 * count),
        sqrt(share * (1 - share) / count + (Z_95 / count) ** 2 / 4),
    )
    low, high = ((middle + sign * Z_95 * spread) / (1 + Z_95**2 / count) for sign in (-1, 1))
    mean = sum(good) / len(good) if good else 0.0
    deviation = sqrt(sum((one - mean) ** 2 for one in good) / (len(good) - 1)) if len(good) > 1 else 0.0
    return {
        "steps": steps,
        "latency_ms": latency_ms,
        "pieces": count,
        "success": round(share, 4),
        "success_95": [round(max(0.0, low), 4), round(min(1.0, high), 4)],
        "rounds": round(mean, 2),
        "rounds_95": round(Z_95 * deviation / sqrt(max(1, len(good))), 2),
    }
