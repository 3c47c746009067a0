"""Evaluates the two shipped models: unseen seeds, blanked pictures, held-out frames, what failed and why."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_server.models.panda.task_monitor import VERDICTS, TaskMonitorBackend
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.rollout import SynchronousArm
from rosa_sim.cell.world import World
from rosa_sim.training.base.results import RESULTS, conclude
from rosa_sim.training.base.trials import Trial, failures_row, play_many, success_aims, success_rows
from rosa_sim.training.pick_place.collect import POLICY_CAMERAS, load, through_jpeg

MAX_ROUNDS = 40  # 20 s of the robot's time; a clean pick takes about 10 rounds
ROUNDS_AFTER_DONE = 2
JPEG_QUALITY = 90


class EpisodeModel(Protocol):
    """What an episode asks of a model."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One answer per input."""


def look(world: World, renderer: SceneRenderer, blank: bool = False) -> ModelInput:
    """What the robot would send now, as the model sees it."""
    pictures = renderer.render(world.seed, world.qpos)
    images = {
        name: through_jpeg(picture * (0 if blank else 1), JPEG_QUALITY) for name, picture in pictures.items()
    }
    state = {
        "joint_position": world.joint_position.astype(np.float32),
        "gripper_width": np.array([world.gripper_width], np.float32),
    }
    return ModelInput("system1", images=images, state=state)


def play(
    seed: int,
    world: World,
    renderer: SceneRenderer,
    policy: EpisodeModel,
    monitor: EpisodeModel | None,
    blank: bool = False,
) -> Trial:
    """One episode as the robot runs it: look, infer, play 400 ms, hold while the next inference runs.

    Without a monitor nothing is said of its verdicts.
    """
    world.reset(seed)
    arm = SynchronousArm(world)
    arm.wait()
    grasps, closed, false_alarms, early_done, left, verdict, ended = 0, False, 0, 0, ROUNDS_AFTER_DONE, "", 0
    right = 0
    for round_number in range(1, MAX_ROUNDS + 1):
        seen = look(world, renderer, blank)
        truth = world.outcome()
        verdict = monitor.infer([seen])[0].verdict if monitor is not None else "ongoing"
        right += verdict == truth
        false_alarms += verdict not in ("ongoing", truth)
        early_done += verdict == "done" and truth == "ongoing" and world.cube_in_bin
        if truth != "ongoing":
            ended = ended or round_number - 1
            left -= 1
            if left < 0:
                break
        actions = policy.infer([seen])[0].arrays["actions"]
        closes = bool(actions[7, 7] < 0.04)
        grasps += closes and not closed
        closed = closes
        arm.play(actions)
        arm.wait()
    outcome = world.outcome()
    name = "timeout" if outcome == "ongoing" else outcome
    judged = (round_number, right) if monitor is not None else (0, 0)
    return Trial(
        seed, name, ended or MAX_ROUNDS, grasps, verdict, false_alarms, early_done, _why(world, name), *judged
    )


def _why(world: World, outcome: str) -> str:
    x, y, z = world.cube_position
    if outcome == "done":
        return ""
    if z < -0.02:
        return "the cube fell off the table"
    if outcome == "failed":
        return f"the cube lies off the mat at ({x:.2f}, {y:.2f})"
    if world.cube_in_bin:
        return "the cube is in the bin, but the gripper did not move away"
    off = world.tool_position - world.cube_position
    return f"the cube is on the mat at ({x:.2f}, {y:.2f}), tool off by {np.round(off * 1000).astype(int).tolist()} mm"


def _play_seeds(seeds: list[int], blank: bool) -> list[Trial]:
    policy, monitor = FlowPolicyBackend(), TaskMonitorBackend()
    policy.load()
    monitor.load()
    world, renderer = World(seeds[0]), SceneRenderer(POLICY_CAMERAS)
    try:
        return [play(seed, world, renderer, policy, monitor, blank) for seed in seeds]
    finally:
        renderer.close()


def monitor_confusion(data: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """`(3, 3)` counts over held-out frames: row = truth, column = verdict, in the order of `VERDICTS`."""
    monitor = TaskMonitorBackend()
    monitor.load()
    confusion = np.zeros((3, 3), np.int64)
    total = len(data["outcome"])
    for start in tqdm(range(0, total, monitor.max_batch), desc="monitor", unit="batch"):
        rows = range(start, min(start + monitor.max_batch, total))
        batch = [
            ModelInput(
                "monitor",
                images={"front": data["front"][i], "wrist": data["wrist"][i]},
                state={
                    "joint_position": data["joint_position"][i],
                    "gripper_width": data["gripper_width"][i : i + 1],
                },
            )
            for i in rows
        ]
        for i, answer in zip(rows, monitor.infer(batch), strict=True):
            confusion[data["outcome"][i], VERDICTS.index(answer.verdict)] += 1
    return confusion


def evaluate(demos: Path, seeds: int, blank_seeds: int, workers: int, results: Path = RESULTS) -> bool:
    """Run everything, print it, write `policy.json` and `policy.png`; returns whether every aim holds."""
    start = time.monotonic()
    episodes = play_many(list(range(seeds)), False, workers, _play_seeds)
    blanked = play_many(list(range(blank_seeds)), True, workers, _play_seeds)
    confusion = monitor_confusion(load(demos, held_out=True))
    accuracy = float(np.trace(confusion) / confusion.sum())
    alarms = int(confusion[0, 1:].sum())
    rows = [
        *success_rows(episodes, blanked),
        {
            "what": "successes that needed a second grasp",
            "value": sum(e.grasps > 1 for e in episodes if e.outcome == "done"),
        },
        {"what": f"monitor accuracy on {confusion.sum()} held-out frames", "value": round(accuracy, 4)},
        {
            "what": "monitor confusion (row truth, column verdict)",
            "value": confusion.tolist(),
            "order": VERDICTS,
        },
        {
            "what": "monitor: done or failed said of an ongoing frame",
            "value": alarms,
            "of": int(confusion[0].sum()),
        },
        {
            "what": "monitor: false alarms in the episodes, rounds",
            "value": sum(e.false_alarms for e in episodes),
        },
        {
            "what": "  of these, done while the released cube came to rest in the bin",
            "value": sum(e.early_done for e in episodes),
        },
        failures_row(episodes),
    ]
    aims = [
        *success_aims(episodes, blanked, 0.95),
        {
            "aim": "monitor right on at least 97 % of held-out frames",
            "value": accuracy,
            "holds": accuracy >= 0.97,
        },
    ]
    for row in rows:
        print(f"{row['what']:<58} {row['value']}")
    holds = conclude("policy", "evaluate", rows, aims, start, results)
    cv2.imwrite(str(results / "policy.png"), contact_sheet(episodes)[:, :, ::-1])
    return holds


def contact_sheet(episodes: list[Trial]) -> NDArray[np.uint8]:
    """Six unseen seeds (those that failed first) as rows of overview pictures over time, RGB."""
    chosen = sorted(episodes, key=lambda episode: (episode.outcome == "done", episode.seed))[:6]
    world = World(0)
    policy, eyes = FlowPolicyBackend(), SceneRenderer(POLICY_CAMERAS)
    policy.load()
    camera = SceneRenderer({"overview": (240, 180)})
    strips = []
    try:
        for episode in chosen:
            world.reset(episode.seed)
            arm = SynchronousArm(world)
            frames = []
            for _ in range(12):
                frames.append(camera.render(world.seed, world.qpos)["overview"])
                arm.wait()
                arm.play(policy.infer([look(world, eyes)])[0].arrays["actions"])
            label = f"seed {episode.seed}: {episode.outcome}"
            strip = np.hstack(frames[::2]).copy()
            cv2.putText(strip, label, (6, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (20, 20, 20), 3)
            cv2.putText(strip, label, (6, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1)
            strips.append(strip)
    finally:
        camera.close()
        eyes.close()
    return np.vstack(strips)
