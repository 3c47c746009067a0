"""Whether the sorting cell's model could stand in for the small ones: `python -m rosa_sim.training one_model`.

It plays the pick-and-place cell on seeds of `evaluate`, in place of policy and monitor: asked for a block of the named
colour that is nearest to the cube's, and for the left bin, which is the only one.
"""

from __future__ import annotations

import colorsys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_sim.cell.layout.hardware import SORT_PARTS, cell
from rosa_sim.cell.world import World
from rosa_sim.training.data import words
from rosa_sim.training.judge.episodes import Kind, PlayedTask, Trial, only_block
from rosa_sim.training.judge.evaluate import small
from rosa_sim.training.judge.results import conclude
from rosa_sim.training.judge.trials import aim, play_all, play_kind, vla
from rosa_sim.training.networks.learn import RESULTS

SMALL, ONE = "flow policy and task monitor", "vla, trained on the sorting cell"
GREYS = ("white", "grey", "black")  # the cube of the pick-and-place cell is always vivid


def nearest_colour(paint: NDArray[np.float64]) -> int:
    """The id in `COLOURS` of the name whose hues are nearest to this RGB colour (0..1) of a cube."""
    hue = colorsys.rgb_to_hsv(*(float(part) for part in paint))[0]
    ranges = cell(SORT_PARTS).colours

    def away(name: str) -> float:
        middle = sum(ranges[name]["hue"]) / 2
        return float(abs((hue - middle + 0.5) % 1.0 - 0.5))

    return words.COLOURS.index(min((name for name in words.COLOURS if name not in GREYS), key=away))


def told_block(world: World, kind: Kind) -> PlayedTask:
    """The only block into the only bin, in words."""
    prompt = words.subtask_text(nearest_colour(world.variation.paint["block0"]), words.LEFT)
    question = words.monitor_text(prompt, words.MONITOR_QUESTIONS[0])
    return replace(only_block(world, kind), prompt=prompt, question=question)


def _play(row: str, seeds: list[int]) -> list[Trial]:
    if row == SMALL:
        return play_kind(small(), Kind(row, only_block), seeds)
    return play_kind(vla(), Kind(row, told_block), seeds)


def compare(cells: int, workers: int, results: Path = RESULTS) -> bool:
    """Play, print and write `one_model.json`; returns whether one model would do."""
    began_s = time.monotonic()
    rows: list[dict[str, Any]] = []
    for name, trials in play_all({SMALL: cells, ONE: cells}, _play, workers)[0].items():
        judged = sum(len(trial.looks) for trial in trials)
        right = sum(trial.monitor_right for trial in trials)
        where = Counter(trial.why.split(";")[0] for trial in trials if trial.why)
        rows.append(
            {
                "models": name,
                "cells": cells,
                "done": sum(trial.outcome == "done" for trial in trials),
                "rounds": judged,
                "monitor right, of rounds": round(right / judged, 4),
                "where the block is when not done": dict(where),
            }
        )
        print("; ".join(f"{key}: {value}" for key, value in rows[-1].items()))
    small_ones, one = rows
    right_of = "monitor right, of rounds"
    aims = [
        aim(
            "one model finishes as many pick-and-place cells as the small models",
            one["done"],
            one["done"] >= small_ones["done"],
        ),
        aim(
            "one model's monitor is right in as many rounds as the small one",
            one[right_of],
            one[right_of] >= small_ones[right_of],
        ),
    ]
    return conclude("one_model", f"one_model --limit-cells {cells}", rows, aims, began_s, results)
