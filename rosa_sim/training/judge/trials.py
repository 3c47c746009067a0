"""Episodes on unseen seeds, played in several processes, and what is asked of every policy."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from rosa_server.models.vla.backend import VlaBackend
from rosa_sim.cell.layout.hardware import PICK_PLACE
from rosa_sim.closed_loop.table import wilson
from rosa_sim.training.judge.episodes import EpisodeModel, Kind, Player, Trial

SEEDS_PER_JOB = 4
Subject = tuple[EpisodeModel, Mapping[str, EpisodeModel]]  # who acts, and who judges each look
Trials = dict[str, list[Trial]]


def play_all(
    seeds: Mapping[str, int],
    play: Callable[[str, list[int]], list[Trial]],
    workers: int,
    beside: Callable[[], list[dict[str, Any]]] | None = None,
) -> tuple[Trials, list[dict[str, Any]]]:
    """So many seeds of each row, counted from 0, in `workers` processes; what `play` gives, in order of the seeds.

    `play(row, seeds)` plays a few of them in one process. `beside` is called in one of them, too; its rows come second.
    """
    jobs = [
        (row, list(range(first, min(first + SEEDS_PER_JOB, count))))
        for row, count in seeds.items()
        for first in range(0, count, SEEDS_PER_JOB)
    ]
    found: Trials = {row: [] for row in seeds}
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        rows = pool.apply_async(beside) if beside is not None else None
        parts = pool.imap_unordered(_Part(play), jobs)
        for row, part in tqdm(parts, total=len(jobs), desc="episodes", unit=f"x{SEEDS_PER_JOB}"):
            found[row] += part
        told = rows.get() if rows is not None else []
    return {row: sorted(part, key=lambda trial: trial.seed) for row, part in found.items()}, told


class _Part:
    """`play`, for the processes of a pool; what it gives comes with its row."""

    def __init__(self, play: Callable[[str, list[int]], list[Trial]]) -> None:
        self._play = play

    def __call__(self, job: tuple[str, list[int]]) -> tuple[str, list[Trial]]:
        return job[0], self._play(*job)


def play_kind(subject: Subject, kind: Kind, seeds: Sequence[int], scene: str = PICK_PLACE) -> list[Trial]:
    """These seeds of a kind, one after the other."""
    player = Player(*subject, kind, scene)
    try:
        return [player.play(seed) for seed in player.fitting(seeds)]
    finally:
        player.close()


def vla(judges: bool = True) -> Subject:
    """The shipped model of the sorting cell, which acts, plans and judges."""
    model = VlaBackend()
    model.load()
    return model, {"monitor": model} if judges else {}


def success_of(trials: Sequence[Trial]) -> float:
    """The share that is done."""
    return float(np.mean([trial.outcome == "done" for trial in trials]))


def share_row(what: str, good: int, count: int) -> dict[str, Any]:
    """A share with its interval; `share` is None where nothing was counted."""
    if count == 0:
        return {"what": what, "good": 0, "of": 0, "share": None, "low": None, "high": None}
    low, high = wilson(good, count)
    return {
        "what": what,
        "good": good,
        "of": count,
        "share": round(good / count, 4),
        "low": round(low, 4),
        "high": round(high, 4),
    }


def aim(what: str, value: Any, holds: bool) -> dict[str, Any]:
    """One line of what was aimed at."""
    return {"aim": what, "value": value, "holds": holds}


def success_rows(trials: Sequence[Trial], blanked: Sequence[Trial]) -> list[dict[str, Any]]:
    """What every policy is asked: does it succeed, without pictures as well, and in how many rounds?"""
    rounds = [trial.rounds for trial in trials if trial.outcome == "done"]
    blank = f"success on {len(blanked)} unseen seeds, blank images"
    return [
        {"what": f"success on {len(trials)} unseen seeds", "value": round(success_of(trials), 4)},
        {"what": blank, "value": round(success_of(blanked), 4)},
        {"what": "outcomes", "value": dict(Counter(trial.outcome for trial in trials))},
        {
            "what": "rounds of a success, median and most",
            "value": [float(np.median(rounds or [0])), max(rounds or [0])],
        },
    ]


def success_aims(trials: Sequence[Trial], blanked: Sequence[Trial], lowest: float) -> list[dict[str, Any]]:
    """At least `lowest` of the unseen seeds succeed, and next to none without pictures."""
    success, blank = success_of(trials), success_of(blanked)
    return [
        aim(f"at least {lowest:.0%} of unseen seeds succeed".replace("%", " %"), success, success >= lowest),
        aim("at most 5 % succeed with blank images", blank, blank <= 0.05),
    ]


def failures_row(trials: Sequence[Trial]) -> dict[str, Any]:
    """The episodes to look at."""
    failed = [trial.told() for trial in trials if trial.outcome != "done"]
    return {"what": "episodes that did not succeed", "value": failed}
