"""Synthetic tasks with the statistics that Kairos publishes (Figures 3, 4 and 10).

A task is a number of actions at 30 Hz. A static horizon, the largest one without loss of accuracy (Figure 3), cuts it
into rounds of equal length. A dynamic horizon lengthens each round by a factor (Figure 4) that rarely changes from one
round to the next (Figure 10). The model that would provide the factors is no part of this: they are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from random import Random

ACTION_S = 1 / 30  # control rate of 2.3
CHUNK = 50  # the longest horizon: actions that one call returns
# Not published: how many actions a task has. About 10 s at the median, as in the benchmarks of Table 1.
MEDIAN_ACTIONS, SPREAD = 300, 0.7
FEWEST_ACTIONS, MOST_ACTIONS = 60, 1500
PHASE_ENDS = (
    0.25  # chance that a round begins another phase of motion: 75 % of rounds are like the one before
)

Quantiles = Sequence[tuple[float, float]]  # (share, value), from share 0 to 1


@dataclass(frozen=True)
class Workload:
    """One family of tasks on one model."""

    name: str
    horizon: Quantiles  # actions, over tasks
    gain: Quantiles  # dynamic over static horizon, over rounds
    source: str


@dataclass(frozen=True)
class Task:
    """How long the robot acts in each round, in seconds."""

    executions_s: tuple[float, ...]
    kind: str = ""  # what the robot says of it


WORKLOADS = (
    Workload(
        "simulator",
        ((0.0, 5), (0.1, 10), (0.6, 40), (1.0, 50)),
        ((0.0, 1.0), (0.5, 2.0), (1.0, 4.0)),
        "Figures 3 and 4: 10 % of horizons below 10, 40 % from 40; half of the rounds at least doubled",
    ),
    Workload(
        "bimanual",
        ((0.0, 20), (0.9, 40), (1.0, 50)),
        ((0.0, 1.0), (0.8, 1.5), (1.0, 2.8)),
        "Figures 3 and 4: horizons from 20, 10 % from 40; 20 % of the rounds 1.5 to 2.8 times as long",
    ),
    Workload(
        "short horizons",
        ((0.0, 5), (0.5, 10), (1.0, 25)),
        ((0.0, 1.0), (0.5, 2.67), (1.0, 4.3)),
        "assumed; 5.2: up to 2.67 times the mean horizon",
    ),
)


def tasks_of(workload: Workload, count: int, dynamic: bool, seed: int) -> list[Task]:
    """`count` tasks. With the same seed, the static and the dynamic ones have the same actions to do."""
    return [_task(workload, dynamic, Random(f"{workload.name}/{seed}/{index}")) for index in range(count)]


def _task(workload: Workload, dynamic: bool, random: Random) -> Task:
    left = min(MOST_ACTIONS, max(FEWEST_ACTIONS, exp(random.gauss(log(MEDIAN_ACTIONS), SPREAD))))
    horizon = draw(workload.horizon, random)
    rounds, gain = [], draw(workload.gain, random)
    while left > 0:
        if random.random() < PHASE_ENDS:
            gain = draw(workload.gain, random)
        length = min(left, CHUNK, round(horizon * gain) if dynamic else round(horizon))
        rounds.append(length * ACTION_S)
        left -= length
    return Task(tuple(rounds))


def draw(quantiles: Quantiles, random: Random) -> float:
    """A value whose distribution function goes linearly through these points."""
    share = random.random()
    for (below, low), (above, high) in pairwise(quantiles):
        if share <= above:
            return low + (high - low) * (share - below) / (above - below)
    return quantiles[-1][1]
