"""How the monitor judges tables that are sorted, unfinished, or can no longer be sorted: of the task alone, and of its
steps as well.

Four tables of each seed that differ in one block. The robot asks when nothing is left to plan, so a wrong verdict is
either a sorted table that it does not call done, or one that can no longer be sorted which it does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from rosa_server.models.backend import ModelInput
from rosa_server.models.vla import judging
from rosa_server.models.vla.backend import VERDICT_CERTAINTY, VlaBackend
from rosa_sim.cell.expert import home_position
from rosa_sim.cell.layout.hardware import SORT_PARTS
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.training.data import words
from rosa_sim.training.data.collect import draw_rule
from rosa_sim.training.data.dataset import EVALUATION_SEED, HELD_OUT_SEED
from rosa_sim.training.data.looks import look
from rosa_sim.training.data.moves import into_bin, lose, move_tool
from rosa_sim.training.data.pictures import POLICY_CAMERAS
from rosa_sim.training.judge.results import conclude
from rosa_sim.training.judge.trials import aim, share_row
from rosa_sim.training.networks.learn import RESULTS

TABLES = {  # what is done to one block; the others lie in their bins -> how the task stands
    "sorted": "done",
    "one block left": "ongoing",
    "one block in the wrong bin": "failed",
    "one block lost": "failed",
}
ALONE, STEPS, SLIP = "of the task alone", "of its steps as well", "of steps, one planned for the wrong bin"
FAR = 50_000  # from the first looks of the same split
CERTAINTIES = (0.5, 0.6, 0.7, 0.8, 0.9)
Likelihoods = NDArray[np.floating]
Told = tuple[str, str, list[Likelihoods]]  # table, how it is asked, the likelihoods of task and steps


def judge(seeds: int, choose: bool, results: Path = RESULTS) -> bool:
    """Four tables of each of `seeds` seeds -> `vla_verdicts.json`, and whether the aims hold.

    With `choose`, other seeds, and nothing is written: the verdicts by certainty are printed instead.
    """
    began_s = time.monotonic()
    first = (HELD_OUT_SEED if choose else EVALUATION_SEED) + FAR
    model = VlaBackend()
    model.load()
    told = ask(model, range(first, first + seeds))
    if choose:
        for certainty in CERTAINTIES:
            for row in rows(told, certainty):
                print(f"certainty {certainty}: {row['what']}: {row['verdicts']}")
        return True
    found = rows(told, VERDICT_CERTAINTY)
    for row in found:
        print(f"{row['what']}: {row['verdicts']}")
    share = {row["what"]: row["share"] for row in found}
    told_aims = [
        aim(f"{what}, {STEPS}: at least 90 %", value, value >= 0.9)
        for what in TABLES
        for value in [share[f"{what}, {STEPS}"]]
    ]
    return conclude(
        "vla_verdicts", f"sort_parts_verdicts --sort-tables {seeds}", found, told_aims, began_s, results
    )


def rows(told: Sequence[Told], certainty: float) -> list[dict[str, Any]]:
    """Of each table and way of asking, how often the verdict is right, with its interval, and all verdicts."""
    found = []
    for table, truth in TABLES.items():
        for asked in (ALONE, STEPS, SLIP):
            said = [
                judging.Task("", ("",) * (len(one) - 1)).judged(one, certainty)[0]
                for of, how, one in told
                if (of, how) == (table, asked)
            ]
            if said:
                verdicts = {word: said.count(word) for word in words.OUTCOMES if word in said}
                row = share_row(f"{table}, {asked}", said.count(truth), len(said))
                found.append(row | {"verdicts": verdicts})
    return found


def ask(model: VlaBackend, seeds: Sequence[int]) -> list[Told]:
    """The monitor's likelihoods about the tables of these seeds."""
    told: list[Told] = []
    world, renderer = World(scene=SORT_PARTS), SceneRenderer(POLICY_CAMERAS, scene=SORT_PARTS)
    try:
        for seed in tqdm(seeds, desc="tables", unit="seed"):
            rng = np.random.default_rng([34, seed])
            world.reset(seed)
            begins = world.qpos
            rule = draw_rule(rng, world)
            odd = int(rng.integers(3))
            for table in TABLES:
                world.set_state(seed, begins)
                lay(world, rng, rule, odd, table)
                steps = [_step(rule, int(colour)) for colour in world.variation.block_colour]
                seen = look(world, renderer)
                ways = {ALONE: [], STEPS: steps}
                if table == "one block in the wrong bin":
                    colour = int(world.variation.block_colour[odd])
                    ways[SLIP] = [
                        words.subtask_text(colour, 1 - words.bin_by(rule, colour)) if number == odd else step
                        for number, step in enumerate(steps)
                    ]
                told += [(table, way, likelihoods(model, seen, rule, texts)) for way, texts in ways.items()]
    finally:
        renderer.close()
    return told


def lay(world: World, rng: np.random.Generator, rule: int, odd: int, table: str) -> None:
    """Blocks into their bins, except number `odd` as the table says; the arm about where it rests in the end."""
    for number, colour in enumerate(world.variation.block_colour):
        side = words.bin_by(rule, int(colour))
        if number != odd or table == "sorted":
            into_bin(world, rng, number, side)
        elif table == "one block in the wrong bin":
            into_bin(world, rng, number, 1 - side)
        elif table == "one block lost":
            lose(world, rng, number)
    move_tool(world, home_position() + rng.normal(0.0, 0.02, 3), world.gripper_width)


def likelihoods(model: VlaBackend, seen: ModelInput, rule: int, steps: Sequence[str]) -> list[Likelihoods]:
    """Of ongoing, done and failed: of the task, then of each step."""
    task = words.monitor_text(words.rule_text(rule), words.MONITOR_QUESTIONS[0])
    asked = [
        replace(seen, component="monitor", prompt=one)
        for one in judging.Task.of("\n".join([task, *steps])).questions
    ]
    return model.likelihoods(asked)


def _step(rule: int, colour: int) -> str:
    return words.subtask_text(colour, words.bin_by(rule, colour))
