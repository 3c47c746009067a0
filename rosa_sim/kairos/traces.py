"""Synthetic tasks with the statistics that Kairos publishes (Figures 3, 4 and 10), and assumptions where it does not.

A task is a number of actions at 30 Hz. A static horizon, the largest one without loss of accuracy (Figure 3), cuts it
into rounds of equal length. A dynamic horizon lengthens each round by a factor (Figure 4) that rarely changes from one
round to the next (Figure 10). The model that would provide the factors is no part of this: they are drawn.

`ASSUMED` names what is not published. It was chosen by one criterion, which no policy of ours takes part in: with it
Autellix stands to FIFO as in the paper. Dividing the two halves of Table 2 gives that without any assumption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import exp, log, sqrt
from random import Random
from statistics import NormalDist

ACTION_S = 1 / 30  # control rate of 2.3
CHUNK = 50  # the longest horizon: actions that one call returns
MEDIAN_ACTIONS, BETWEEN_KINDS, WITHIN_KIND = 165, 0.36, 0.15
MIN_ACTIONS, MAX_ACTIONS = 60, 520
PHASE_ENDS = (
    0.25  # chance that a round begins another phase of motion: 75 % of rounds are like the one before
)
ASSUMED = (
    f"actions of a task: median {MEDIAN_ACTIONS}, as LIBERO's demonstrations have (means of its suites: 269, 122, 147"
    " and 123)",
    f"coefficient of variation of their number: {BETWEEN_KINDS} between kinds of tasks, as between LIBERO's suites,"
    f" {WITHIN_KIND} between tasks of one kind; {MIN_ACTIONS} to {MAX_ACTIONS} actions",
    "kinds: as many as the benchmark has tasks (LIBERO 40; 20 placements of the bimanual robot); the horizon of Figure"
    " 3 is one of the kind",
    "gains of longer horizons: those of Figure 4, the offline optimum, which Kairos's confidence may not reach",
)

Quantiles = Sequence[tuple[float, float]]  # (share, value), from share 0 to 1


@dataclass(frozen=True)
class Workload:
    """One family of tasks on one model."""

    name: str
    horizon: Quantiles  # actions, over kinds of tasks
    gain: Quantiles  # dynamic over static horizon, over rounds
    kinds: int
    source: str
    published: bool = True  # its horizons are: what is claimed of the paper's workloads is asked of it


@dataclass(frozen=True)
class Task:
    """How long the robot acts in each round, in seconds, and what it says that the task is."""

    executions_s: tuple[float, ...]
    kind: str = ""


WORKLOADS = (
    Workload(
        "simulator",
        ((0.0, 5), (0.1, 10), (0.6, 40), (1.0, 50)),
        ((0.0, 1.0), (0.5, 2.0), (1.0, 4.0)),
        40,
        "Figures 3 and 4: 10 % of horizons below 10, 40 % from 40; half of the rounds at least doubled",
    ),
    Workload(
        "bimanual",
        ((0.0, 20), (0.9, 40), (1.0, 50)),
        ((0.0, 1.0), (0.8, 1.5), (1.0, 2.8)),
        20,
        "Figures 3 and 4: horizons from 20, 10 % from 40; 20 % of the rounds 1.5 to 2.8 times as long",
    ),
    Workload(
        "short horizons",
        ((0.0, 5), (0.5, 10), (1.0, 25)),
        ((0.0, 1.0), (0.5, 2.0), (1.0, 4.0)),
        40,
        "horizons assumed, as of the models with the shortest ones; gains of Figure 4's simulator",
        published=False,
    ),
)


def tasks_of(workload: Workload, count: int, dynamic: bool, seed: int) -> list[Task]:
    """`count` tasks. With the same seed, the static and the dynamic ones have the same actions to do."""
    return [_task(workload, dynamic, Random(f"{workload.name}/{seed}/{index}")) for index in range(count)]


@cache
def _kind(workload: Workload, number: int) -> tuple[float, float]:
    """The median number of actions and the static horizon of a kind, whatever the seed.

    Both are stratified: a workload of a few kinds has the statistics of the figures, not those of a few draws.
    """
    order = list(range(workload.kinds))
    Random(f"{workload.name}/lengths").shuffle(order)
    share = (order[number] + 0.5) / workload.kinds
    actions = MEDIAN_ACTIONS * exp(_sigma(BETWEEN_KINDS) * NormalDist().inv_cdf(share))
    return actions, value_at(workload.horizon, (number + 0.5) / workload.kinds)


def _task(workload: Workload, dynamic: bool, random: Random) -> Task:
    number = random.randrange(workload.kinds)
    median, horizon = _kind(workload, number)
    actions = median * exp(random.gauss(0.0, _sigma(WITHIN_KIND)))
    left = min(MAX_ACTIONS, max(MIN_ACTIONS, actions))
    rounds, gain = [], draw(workload.gain, random)
    while left > 0:
        if random.random() < PHASE_ENDS:
            gain = draw(workload.gain, random)
        length = min(left, CHUNK, round(horizon * gain) if dynamic else round(horizon))
        rounds.append(length * ACTION_S)
        left -= length
    return Task(tuple(rounds), f"{workload.name} {number}")


def draw(quantiles: Quantiles, random: Random) -> float:
    """A value whose distribution function goes linearly through these points."""
    return value_at(quantiles, random.random())


def value_at(quantiles: Quantiles, share: float) -> float:
    """The value below which this share of them lies."""
    for (below, low), (above, high) in pairwise(quantiles):
        if share <= above:
            return low + (high - low) * (share - below) / (above - below)
    return quantiles[-1][1]


def _sigma(variation: float) -> float:
    """Of a lognormal distribution with this coefficient of variation."""
    return sqrt(log(1 + variation * variation))
