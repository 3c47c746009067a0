"""What the shipped models can and cannot do: the same cells under another colour, light or camera.

Every look is judged twice, by the monitor as shipped and by its network alone (`range_check=False`), so that the table
shows what the check of the pictures' range changes.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_server.models.panda.task_monitor import TaskMonitorBackend
from rosa_sim.cell.layout.variation import CHANGES
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.rollout import SynchronousArm
from rosa_sim.cell.world import World
from rosa_sim.training.base.results import RESULTS, conclude
from rosa_sim.training.pick_place.collect import POLICY_CAMERAS
from rosa_sim.training.pick_place.evaluate import MAX_ROUNDS, ROUNDS_AFTER_DONE, look

CELLS_PER_JOB = 4
IN_RANGE_CELLS = 2  # times as many cells without a change, to see what the check costs


@dataclass
class LimitsTally:
    """Sums over the cells of one change; a round is one look."""

    cells: int = 0
    successes: int = 0
    rounds: int = 0
    wrong: Counter[str] = field(default_factory=Counter)  # "network" and "shipped": verdict is not the truth
    wrong_done: Counter[str] = field(default_factory=Counter)  # done, and the cube is not in the bin
    wrong_failed: Counter[str] = field(default_factory=Counter)
    right_done: Counter[str] = field(default_factory=Counter)
    why: Counter[str] = field(default_factory=Counter)  # why a picture was out of range

    def add(self, other: LimitsTally) -> None:
        """Add another tally to this one."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(value, Counter):
                mine.update(value)
            else:
                setattr(self, name, mine + value)


def play_changed(
    seed: int,
    world: World,
    renderer: SceneRenderer,
    policy: FlowPolicyBackend,
    monitors: dict[str, TaskMonitorBackend],
) -> LimitsTally:
    """One cell as `evaluate.play` plays it; each of `monitors` judges every look."""
    world.reset(seed)
    arm = SynchronousArm(world)
    arm.wait()
    tally, left = LimitsTally(cells=1), ROUNDS_AFTER_DONE
    for _ in range(MAX_ROUNDS):
        seen, truth = look(world, renderer), world.outcome()
        tally.rounds += 1
        for name, monitor in monitors.items():
            answer = monitor.infer([seen])[0]
            tally.wrong[name] += answer.verdict != truth
            tally.wrong_done[name] += answer.verdict == "done" and not world.cube_in_bin
            tally.wrong_failed[name] += answer.verdict == "failed" != truth
            tally.right_done[name] += answer.verdict == "done" == truth
            if answer.text:
                tally.why[answer.text.split(":")[1].strip()] += 1
        if truth != "ongoing":
            left -= 1
            if left < 0:
                break
        arm.play(policy.infer([seen])[0].arrays["actions"])
        arm.wait()
    tally.successes = int(world.outcome() == "done")
    return tally


def _play_job(job: tuple[str, list[int]]) -> tuple[str, LimitsTally]:
    change, seeds = job
    policy = FlowPolicyBackend()
    monitors = {"shipped": TaskMonitorBackend(), "network": TaskMonitorBackend(range_check=False)}
    backends: list[FlowPolicyBackend | TaskMonitorBackend] = [policy, *monitors.values()]
    for backend in backends:
        backend.load()
    world, renderer = World(seeds[0]), SceneRenderer(POLICY_CAMERAS, CHANGES[change])
    total = LimitsTally()
    try:
        for seed in seeds:
            total.add(play_changed(seed, world, renderer, policy, monitors))
    finally:
        renderer.close()
    return change, total


def row_of(change: str, tally: LimitsTally) -> dict[str, Any]:
    """One line of the table; counts are rounds."""
    return {
        "change of the scene": change,
        "cells": tally.cells,
        "successes": tally.successes,
        "rounds": tally.rounds,
        "wrong verdicts, network alone": _share(tally.wrong["network"], tally.rounds),
        "wrong verdicts, as shipped": _share(tally.wrong["shipped"], tally.rounds),
        "wrong done, network alone": tally.wrong_done["network"],
        "wrong done, as shipped": tally.wrong_done["shipped"],
        "wrong failed, network alone": tally.wrong_failed["network"],
        "wrong failed, as shipped": tally.wrong_failed["shipped"],
        "right done, network alone": tally.right_done["network"],
        "right done, as shipped": tally.right_done["shipped"],
        "out of range": ", ".join(f"{why}: {n}" for why, n in sorted(tally.why.items())),
    }


def _share(part: int, whole: int) -> float:
    return round(part / max(1, whole), 3)


def measure_limits(cells: int, workers: int, results: Path = RESULTS) -> bool:
    """Play every change of `CHANGES`, print the table and write `policy_limits.json`; whether the aims hold."""
    start = time.monotonic()
    jobs = [
        (change, list(range(first, min(first + CELLS_PER_JOB, count))))
        for change in CHANGES
        for count in [cells * (IN_RANGE_CELLS if change == "none" else 1)]
        for first in range(0, count, CELLS_PER_JOB)
    ]
    tallies = {change: LimitsTally() for change in CHANGES}
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        parts = pool.imap_unordered(_play_job, jobs)
        for change, part in tqdm(parts, total=len(jobs), desc="limits", unit=f"x{CELLS_PER_JOB}"):
            tallies[change].add(part)
    rows = [row_of(change, tally) for change, tally in tallies.items()]
    lost = tallies["none"].right_done["network"] - tallies["none"].right_done["shipped"]
    wrong = sum(tally.wrong_done["shipped"] for tally in tallies.values())
    aims = [
        {
            "aim": "the check takes no right done away from an unchanged cell",
            "value": lost,
            "holds": lost == 0,
        },
        {"aim": "done is said in no round without the cube in the bin", "value": wrong, "holds": wrong == 0},
    ]
    for row in rows:
        print("; ".join(f"{name}: {value}" for name, value in row.items()))
    return conclude("policy_limits", "limits", rows, aims, start, results)
