"""Episodes of a policy on unseen seeds, played in several processes, and what is asked of every policy."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

SEEDS_PER_JOB = 4


@dataclass(frozen=True)
class Trial:
    """The result of one seed."""

    seed: int
    outcome: str  # "done", "failed" or "timeout"
    rounds: int
    grasps: int  # how often the gripper closed on something or nothing
    monitor_at_end: str
    false_alarms: int  # rounds in which the monitor said done or failed wrongly
    early_done: int  # of these, a done while the released cube was still coming to rest in the bin
    why: str
    judged: int = 0  # rounds in which there was a monitor
    right: int = 0  # of these, in which it said what was true


def play_many(
    seeds: list[int], blank: bool, workers: int, play_some: Callable[..., list[Trial]]
) -> list[Trial]:
    """All seeds, in `workers` processes, with progress. `play_some(seeds, blank)` plays a few of them in one."""
    parts = [seeds[i : i + SEEDS_PER_JOB] for i in range(0, len(seeds), SEEDS_PER_JOB)]
    label = "blank images" if blank else "unseen seeds"
    episodes: list[Trial] = []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        play_part = partial(play_some, blank=blank)
        for part in tqdm(pool.imap_unordered(play_part, parts), total=len(parts), desc=label, unit="x4"):
            episodes += part
    return sorted(episodes, key=lambda episode: episode.seed)


def success_of(episodes: list[Trial]) -> float:
    """The share that ended with the cube in the bin."""
    return float(np.mean([episode.outcome == "done" for episode in episodes]))


def success_rows(episodes: list[Trial], blanked: list[Trial]) -> list[dict[str, Any]]:
    """What every policy is asked: does it succeed, without pictures as well, and in how many rounds?"""
    rounds = [episode.rounds for episode in episodes if episode.outcome == "done"]
    return [
        {"what": f"success on {len(episodes)} unseen seeds", "value": round(success_of(episodes), 4)},
        {
            "what": f"success on {len(blanked)} unseen seeds, blank images",
            "value": round(success_of(blanked), 4),
        },
        {"what": "outcomes", "value": dict(Counter(episode.outcome for episode in episodes))},
        {
            "what": "rounds of a success, median and most",
            "value": [float(np.median(rounds or [0])), max(rounds or [0])],
        },
    ]


def success_aims(episodes: list[Trial], blanked: list[Trial], least: float) -> list[dict[str, Any]]:
    """At least `least` of the unseen seeds succeed, and next to none without pictures."""
    success, blank_success = success_of(episodes), success_of(blanked)
    return [
        {
            "aim": f"at least {least:.0%} of unseen seeds succeed".replace("%", " %"),
            "value": success,
            "holds": success >= least,
        },
        {
            "aim": "at most 5 % succeed with blank images",
            "value": blank_success,
            "holds": blank_success <= 0.05,
        },
    ]


def failures_row(episodes: list[Trial]) -> dict[str, Any]:
    """The episodes to look at."""
    return {
        "what": "episodes that did not succeed",
        "value": [asdict(episode) for episode in episodes if episode.outcome != "done"],
    }
