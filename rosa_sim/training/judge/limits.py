"""What the shipped models can and cannot do: the same cells under another colour, light or camera.

Every look is judged twice, by the monitor as shipped and by its network alone (`range_check=False`), so that the table
shows what the check of the pictures' range changes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rosa_server.models.backend import ModelOutput
from rosa_server.models.panda.task_monitor import TaskMonitorBackend
from rosa_sim.cell.layout.variation import CHANGES
from rosa_sim.training.judge.episodes import JudgedLook, Kind, Trial, only_block
from rosa_sim.training.judge.evaluate import small
from rosa_sim.training.judge.results import conclude
from rosa_sim.training.judge.trials import aim, play_all, play_kind
from rosa_sim.training.networks.learn import RESULTS

IN_RANGE_CELLS = 2  # times as many cells without a change, to see what the check costs
SHIPPED, NETWORK = "monitor", "network"
# What is counted of the rounds, a round is one look.
COUNTED: dict[str, Callable[[JudgedLook, ModelOutput], bool]] = {
    "wrong verdicts": lambda one, said: said.verdict != one.truth,
    "wrong done": lambda one, said: said.verdict == "done" and not one.in_bins,
    "wrong failed": lambda one, said: said.verdict == "failed" != one.truth,
    "right done": lambda one, said: said.verdict == "done" == one.truth,
}


def _play(change: str, seeds: list[int]) -> list[Trial]:
    policy, monitors = small()
    network = TaskMonitorBackend(range_check=False)
    network.load()
    return play_kind(
        (policy, {**monitors, NETWORK: network}), Kind(change, only_block, CHANGES[change]), seeds
    )


def row_of(change: str, trials: Sequence[Trial]) -> dict[str, Any]:
    """One line of the table; counts are rounds, wrong verdicts a share of them."""
    rounds = sum(len(trial.looks) for trial in trials)
    row: dict[str, Any] = {
        "change of the scene": change,
        "cells": len(trials),
        "successes": sum(trial.outcome == "done" for trial in trials),
        "rounds": rounds,
    }
    for what, holds in COUNTED.items():
        for name, monitor in (("network alone", NETWORK), ("as shipped", SHIPPED)):
            count = sum(trial.count(holds, monitor) for trial in trials)
            row[f"{what}, {name}"] = round(count / max(1, rounds), 3) if what == "wrong verdicts" else count
    said = [answer.text for trial in trials for one in trial.looks for answer in one.answers.values()]
    why = Counter(text.split(":")[1].strip() for text in said if text)
    return row | {"out of range": ", ".join(f"{name}: {n}" for name, n in sorted(why.items()))}


def measure_limits(cells: int, workers: int, results: Path = RESULTS) -> bool:
    """Play every change of `CHANGES`, print the table and write `policy_limits.json`; whether the aims hold."""
    began_s = time.monotonic()
    seeds = {change: cells * (IN_RANGE_CELLS if change == "none" else 1) for change in CHANGES}
    rows = [row_of(change, trials) for change, trials in play_all(seeds, _play, workers)[0].items()]
    plain = next(row for row in rows if row["change of the scene"] == "none")
    lost = plain["right done, network alone"] - plain["right done, as shipped"]
    wrong = sum(row["wrong done, as shipped"] for row in rows)
    aims = [
        aim("the check takes no right done away from an unchanged cell", lost, lost == 0),
        aim("done is said in no round without the cube in the bin", wrong, wrong == 0),
    ]
    for row in rows:
        print("; ".join(f"{name}: {value}" for name, value in row.items()))
    return conclude("policy_limits", "limits", rows, aims, began_s, results)
