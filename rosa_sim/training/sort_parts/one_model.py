"""Whether the sorting cell's model could stand in for the small ones: `python -m rosa_sim.training one_model`.

It plays the pick-and-place cell on seeds of `evaluate`, in place of policy and monitor: asked for a block of the named
colour that is nearest to the cube's, and for the left bin, on whose side the only one stands.
"""

from __future__ import annotations

import colorsys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_server.models.panda.task_monitor import TaskMonitorBackend
from rosa_server.models.vla.backend import VlaBackend
from rosa_sim.cell.layout.hardware import SORT_PARTS, cell
from rosa_sim.cell.layout.sort_names import COLOURS
from rosa_sim.cell.layout.variation import Variation
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.training.base.results import RESULTS, conclude
from rosa_sim.training.base.trials import Trial, play_many
from rosa_sim.training.pick_place.collect import POLICY_CAMERAS
from rosa_sim.training.pick_place.evaluate import EpisodeModel, play
from rosa_sim.training.sort_parts import words
from rosa_sim.training.sort_parts.prompts import monitor_text

SMALL, ONE = "flow policy and task monitor", "vla, trained on the sorting cell"
GREYS = ("white", "grey", "black")  # the cube of the pick-and-place cell is always vivid


def nearest_colour(paint: NDArray[np.float64]) -> int:
    """The id in `COLOURS` of the name whose hues are nearest to this RGB colour (0..1) of a cube."""
    hue = colorsys.rgb_to_hsv(*(float(part) for part in paint))[0]
    ranges = cell(SORT_PARTS)["colours"]

    def away(name: str) -> float:
        middle = sum(ranges[name]["hue"]) / 2
        return float(abs((hue - middle + 0.5) % 1.0 - 0.5))

    return COLOURS.index(min((name for name in COLOURS if name not in GREYS), key=away))


class Told:
    """A model that takes prompts, for an episode that has none: tells it the task of the world's present cell."""

    def __init__(self, model: VlaBackend, world: World, component: str) -> None:
        self._model, self._world, self._component = model, world, component

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """As the model answers to the prompt."""
        colour = nearest_colour(Variation.of(self._world.seed).colours["cube"])
        prompt = words.subtask_text(colour, words.LEFT)
        if self._component == "monitor":
            prompt = monitor_text(prompt, words.MONITOR_QUESTIONS[0])
        return self._model.infer([replace(one, component=self._component, prompt=prompt) for one in batch])


def _play_small(seeds: list[int], blank: bool) -> list[Trial]:
    policy, monitor = FlowPolicyBackend(), TaskMonitorBackend()
    policy.load()
    monitor.load()
    return _play(seeds, blank, lambda _: (policy, monitor))


def _play_one(seeds: list[int], blank: bool) -> list[Trial]:
    model = VlaBackend()
    model.load()
    return _play(seeds, blank, lambda world: (Told(model, world, "system1"), Told(model, world, "monitor")))


def _play(
    seeds: list[int], blank: bool, models: Callable[[World], tuple[EpisodeModel, EpisodeModel]]
) -> list[Trial]:
    world, renderer = World(seeds[0]), SceneRenderer(POLICY_CAMERAS)
    policy, monitor = models(world)
    try:
        return [play(seed, world, renderer, policy, monitor, blank) for seed in seeds]
    finally:
        renderer.close()


def compare(cells: int, workers: int, results: Path = RESULTS) -> bool:
    """Play, print and write `one_model.json`; returns whether one model would do."""
    began_s = time.monotonic()
    rows: list[dict[str, Any]] = []
    for name, play_some in ((SMALL, _play_small), (ONE, _play_one)):
        trials = play_many(list(range(cells)), False, workers, play_some)
        judged = sum(trial.judged for trial in trials)
        rows.append(
            {
                "models": name,
                "cells": cells,
                "done": sum(trial.outcome == "done" for trial in trials),
                "rounds": judged,
                "monitor right, of rounds": round(sum(trial.right for trial in trials) / judged, 4),
                "why not done": dict(
                    Counter(trial.why.split(" at (")[0].split(",")[0] for trial in trials if trial.why)
                ),
            }
        )
        print("; ".join(f"{key}: {value}" for key, value in rows[-1].items()))
    small, one = rows
    aims = [
        {
            "aim": "one model finishes as many pick-and-place cells as the small models",
            "value": one["done"],
            "holds": one["done"] >= small["done"],
        },
        {
            "aim": "one model's monitor is right in as many rounds as the small one",
            "value": one["monitor right, of rounds"],
            "holds": one["monitor right, of rounds"] >= small["monitor right, of rounds"],
        },
    ]
    return conclude("one_model", f"one_model --limit-cells {cells}", rows, aims, began_s, results)
