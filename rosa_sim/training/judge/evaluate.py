"""Evaluates the models of the pick-and-place cell: unseen seeds, blank pictures, held-out looks, and what failed."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from rosa_server.models.backend import ModelInput
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_server.models.panda.task_monitor import VERDICTS, TaskMonitorBackend
from rosa_server.models.token_policy.backend import TokenPolicyBackend
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.training.data.dataset import Data, input_of, load
from rosa_sim.training.judge.episodes import Kind, PlayedTask, Player, Trial, only_block
from rosa_sim.training.judge.results import conclude
from rosa_sim.training.judge.trials import (
    Subject,
    aim,
    failures_row,
    play_all,
    play_kind,
    success_aims,
    success_rows,
)
from rosa_sim.training.networks.learn import RESULTS

UNSEEN, BLANK = Kind("unseen seeds", only_block), Kind("blank images", only_block, blank=True)
KINDS = {kind.name: kind for kind in (UNSEEN, BLANK)}
SHEET_LOOKS = 12


def small() -> Subject:
    """The flow policy and the task monitor."""
    policy, monitor = FlowPolicyBackend(), TaskMonitorBackend()
    policy.load()
    monitor.load()
    return policy, {"monitor": monitor}


def _play_small(row: str, seeds: list[int]) -> list[Trial]:
    return play_kind(small(), KINDS[row], seeds)


def _play_tokens(row: str, seeds: list[int], engine: str) -> list[Trial]:
    policy = TokenPolicyBackend(engine=engine)
    policy.load()
    try:
        return play_kind((policy, {}), KINDS[row], seeds)
    finally:
        policy.close()


def monitor_confusion(data: Data) -> NDArray[np.int64]:
    """`(3, 3)` counts over held-out looks: row = truth, column = verdict, in the order of `VERDICTS`."""
    monitor = TaskMonitorBackend()
    monitor.load()
    confusion = np.zeros((3, 3), np.int64)
    total = len(data["outcome"])
    for start in tqdm(range(0, total, monitor.max_batch), desc="monitor", unit="batch"):
        rows = range(start, min(start + monitor.max_batch, total))
        asked: list[ModelInput] = [input_of(data, row, "monitor") for row in rows]
        for row, answer in zip(rows, monitor.infer(asked), strict=True):
            confusion[data["outcome"][row], VERDICTS.index(answer.verdict)] += 1
    return confusion


def evaluate(demos: Path, seeds: int, blank_seeds: int, workers: int, results: Path = RESULTS) -> bool:
    """Run everything, print it, write `policy.json` and `policy.png`; returns whether every aim holds."""
    began_s = time.monotonic()
    found, _ = play_all({UNSEEN.name: seeds, BLANK.name: blank_seeds}, _play_small, workers)
    trials, blanked = found[UNSEEN.name], found[BLANK.name]
    confusion = monitor_confusion(load(demos, "choose"))
    accuracy = float(np.trace(confusion) / confusion.sum())
    again = sum(trial.grasps > 1 for trial in trials if trial.outcome == "done")
    looks, ongoing = int(confusion.sum()), int(confusion[0].sum())
    rows: list[dict[str, Any]] = [
        *success_rows(trials, blanked),
        {"what": "successes that needed a second grasp", "value": again},
        {"what": f"monitor accuracy on {looks} held-out frames", "value": round(accuracy, 4)},
        {
            "what": "monitor confusion (row truth, column verdict)",
            "value": confusion.tolist(),
            "order": VERDICTS,
        },
        {
            "what": "monitor: done or failed said of an ongoing frame",
            "value": int(confusion[0, 1:].sum()),
            "of": ongoing,
        },
        {
            "what": "monitor: false alarms in the episodes, rounds",
            "value": sum(trial.false_alarms for trial in trials),
        },
        {
            "what": "  of these, done while the released cube came to rest in the bin",
            "value": sum(trial.early_done for trial in trials),
        },
        failures_row(trials),
    ]
    aims = [
        *success_aims(trials, blanked, 0.95),
        aim("monitor right on at least 97 % of held-out frames", accuracy, accuracy >= 0.97),
    ]
    for row in rows:
        print(f"{row['what']:<58} {row['value']}")
    holds = conclude("policy", "evaluate", rows, aims, began_s, results)
    cv2.imwrite(str(results / "policy.png"), contact_sheet(trials)[:, :, ::-1])
    return holds


def evaluate_tokens(
    seeds: int, blank_seeds: int, workers: int, engine: str = "pipelined", results: Path = RESULTS
) -> bool:
    """The token policy through an engine: play, print and write `token_policy.json`; whether the aims hold."""
    began_s = time.monotonic()
    play = partial(_play_tokens, engine=engine)
    found, _ = play_all({UNSEEN.name: seeds, BLANK.name: blank_seeds}, play, workers)
    trials, blanked = found[UNSEEN.name], found[BLANK.name]
    rows = [*success_rows(trials, blanked), failures_row(trials)]
    for row in rows:
        print(f"{row['what']:<50} {row['value']}")
    command = f"evaluate_tokens --seeds {seeds} --engine {engine}"
    return conclude("token_policy", command, rows, success_aims(trials, blanked, 0.9), began_s, results)


def contact_sheet(trials: list[Trial]) -> NDArray[np.uint8]:
    """Six unseen seeds (those that failed first) as rows of overview pictures over time, RGB."""
    chosen = sorted(trials, key=lambda trial: (trial.outcome == "done", trial.seed))[:6]
    player, camera = Player(small()[0], {}, UNSEEN), SceneRenderer({"overview": (240, 180)})
    strips = []

    def short(world: World, kind: Kind) -> PlayedTask:
        return PlayedTask(lambda: "ongoing", looks=SHEET_LOOKS, acts=SHEET_LOOKS)

    try:
        for trial in chosen:
            frames: list[NDArray[np.uint8]] = []

            def shoot(world: World, frames: list[NDArray[np.uint8]] = frames) -> None:
                frames.append(camera.render(world.seed, world.qpos)["overview"])

            player.play(trial.seed, short, shoot)
            label = f"seed {trial.seed}: {trial.outcome}"
            strip = np.hstack(frames[::2]).copy()
            cv2.putText(strip, label, (6, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (20, 20, 20), 3)
            cv2.putText(strip, label, (6, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1)
            strips.append(strip)
    finally:
        camera.close()
        player.close()
    return np.vstack(strips)
