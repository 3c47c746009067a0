"""Demonstrations: the expert acts under deliberate disturbances and labels every state that occurs.

A sample is what the robot would send (two JPEG-coded pictures, joints, gripper) with the expert's chunk for that state
and the ground truth of the task. Episodes differ in kind, so that recoveries, ends and failures are all well covered.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from rosa_server.models.panda.kinematics import forward, inverse, inverse_path
from rosa_sim.cell.expert import expert_chunk
from rosa_sim.cell.layout.hardware import cell
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.rollout import SynchronousArm
from rosa_sim.cell.world import World

OUTCOMES = ("ongoing", "done", "failed")
POLICY_CAMERAS = {"front": (96, 96), "wrist": (96, 96)}
TRAIN_SEED, HELD_OUT_SEED = 100_000, 500_000  # evaluation uses seeds from 0 on
LOOK_SEED = 100_000_000  # cells of single looks
LOOKS_PER_EPISODE = 10
EPISODES_PER_SHARD = 20
MAX_ROUNDS = 26


@dataclass(frozen=True)
class PickDisturbance:
    """What is disturbed in one episode."""

    random_start: bool  # the arm starts anywhere above the table
    noise: float  # how often a chunk is displaced
    drop: bool  # the gripper opens once while it carries the cube
    teleport: str  # "", "off_mat", "off_table", "in_bin" or "on_mat": where the cube is put
    push: bool  # the cube is struck

    @staticmethod
    def draw(rng: np.random.Generator, monitor: bool) -> PickDisturbance:
        """Mostly the task itself for the policy; as many failures as successes for the monitor."""
        trouble = rng.random() < (0.55 if monitor else 0.25)
        kind = rng.choice(["drop", "off_mat", "off_table", "in_bin", "on_mat", "push"]) if trouble else ""
        return PickDisturbance(
            random_start=bool(rng.random() < 0.4),
            noise=float(rng.choice([0.0, 0.2, 0.5])),
            drop=bool(kind == "drop"),
            teleport=str(kind) if kind in ("off_mat", "off_table", "in_bin", "on_mat") else "",
            push=bool(kind == "push"),
        )


class DemonstrationRecorder:
    """Renders and labels the current state."""

    def __init__(self, world: World, renderer: SceneRenderer, rng: np.random.Generator) -> None:
        self._world, self._renderer, self._rng = world, renderer, rng
        self.rows: list[dict[str, Any]] = []

    def record(self, chunk: NDArray[np.float32], settled: bool) -> None:
        """One sample; `settled` when the arm stands still as it does when the robot sends an observation."""
        world = self._world
        pictures = self._renderer.render(world.seed, world.qpos)
        quality = int(self._rng.integers(85, 96))
        self.rows.append(
            {
                **observed(pictures, quality, world.joint_position, world.gripper_width),
                "chunk": chunk,
                "cube": world.cube_position.astype(np.float32),
                "bin": world.bin_position.astype(np.float32),
                "outcome": np.int64(OUTCOMES.index(world.outcome())),
                "settled": np.bool_(settled),
                "seed": np.int64(world.seed),
            }
        )


def observed(
    pictures: Mapping[str, NDArray[np.uint8]], quality: int, q_rad: NDArray[np.float64], gripper_m: float
) -> dict[str, Any]:
    """What a robot sends: its pictures after JPEG of this quality, its joints, gripper and tool."""
    return {
        "front": through_jpeg(pictures["front"], quality),
        "wrist": through_jpeg(pictures["wrist"], quality),
        "joint_position": q_rad.astype(np.float32),
        "gripper_width": np.float32(gripper_m),
        "tool": forward(q_rad)[0].astype(np.float32),
    }


def through_jpeg(picture: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """`(h, w, 3)` RGB as the server sees it, after JPEG."""
    ok, coded = cv2.imencode(".jpg", picture[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not ok:
        raise RuntimeError(f"OpenCV cannot encode a picture of shape {picture.shape} as JPEG")
    seen = cv2.imdecode(coded, cv2.IMREAD_COLOR)
    assert seen is not None  # it was just encoded
    return np.ascontiguousarray(seen[:, :, ::-1], np.uint8)


def play_episode(
    world: World, recorder: DemonstrationRecorder, rng: np.random.Generator, disturbance: PickDisturbance
) -> None:
    """One episode from the world's fresh state to a little after its end."""
    if disturbance.random_start:
        start_anywhere(world, rng)
    arm = SynchronousArm(world)
    arm.wait()
    event_round = int(rng.integers(0, 8))
    rounds_after_end = int(rng.integers(2, 6))
    for round_number in range(MAX_ROUNDS):
        if round_number == event_round:
            _disturb_cube(world, rng, disturbance)
            arm.wait(0.15)
        chunk = expert_chunk(world)
        recorder.record(chunk, settled=True)
        executed = displaced(chunk, rng, disturbance.noise)
        if disturbance.drop and world.cube_position[2] > 0.07 and rng.random() < 0.5:
            executed[:, 3] = 0.08
        q = inverse_path(executed[None, :, :3], world.joint_position[None])[0]
        actions = np.concatenate([q, executed[:, 3:]], axis=1)
        looks = rng.random(4) < 0.7
        for pair in range(4):
            arm.play(actions[2 * pair : 2 * pair + 2], executed_steps=2)
            if looks[pair] and pair < 3:
                recorder.record(expert_chunk(world), settled=False)
        arm.wait(float(rng.uniform(0.06, 0.16)))
        if world.outcome() != "ongoing" and round_number >= event_round:
            rounds_after_end -= 1
        if rounds_after_end <= 0:
            break


def single_look(world: World, recorder: DemonstrationRecorder, rng: np.random.Generator) -> None:
    """One labelled look at a separate cell: many more cells than episodes could show, and most at the hard moment,
    before the arm has come near."""
    if rng.random() < 0.6:
        start_anywhere(world, rng)
    if rng.random() < 0.25:
        teleport_cube(world, rng, str(rng.choice(["off_mat", "off_table", "in_bin"])))
        world.set_state(world.seed, world.qpos)
    recorder.record(expert_chunk(world), settled=True)


def done_look(world: World, recorder: DemonstrationRecorder, rng: np.random.Generator) -> None:
    """One look at a cube in the bin, the arm anywhere."""
    if rng.random() < 0.6:
        start_anywhere(world, rng)
    teleport_cube(world, rng, "in_bin")
    world.set_state(world.seed, world.qpos)
    recorder.record(expert_chunk(world), settled=True)


def collect_shard(folder: Path, first_seed: int, monitor: bool) -> Path:
    """`EPISODES_PER_SHARD` episodes from `first_seed` on, as one npz file; an existing file is kept."""
    path = folder / f"{first_seed}.npz"
    if path.is_file():
        return path
    world, renderer = World(first_seed), SceneRenderer(POLICY_CAMERAS)
    rng = np.random.default_rng([7, first_seed])
    recorder = DemonstrationRecorder(world, renderer, rng)
    try:
        for seed in range(first_seed, first_seed + EPISODES_PER_SHARD):
            for number in range(LOOKS_PER_EPISODE):
                world.reset(LOOK_SEED + seed * LOOKS_PER_EPISODE + number)
                single_look(world, recorder, rng)
            world.reset(seed)
            play_episode(world, recorder, rng, PickDisturbance.draw(rng, monitor))
    finally:
        renderer.close()
    rows = recorder.rows
    scratch = path.with_suffix(f".{os.getpid()}.tmp.npz")
    arrays: dict[str, Any] = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    np.savez(scratch, **arrays)
    scratch.rename(path)
    return path


def collect(folder: Path, episodes: int, held_out_episodes: int, workers: int) -> None:
    """Collect every missing shard, in `workers` processes."""
    folder.mkdir(parents=True, exist_ok=True)
    # Every third shard has the monitor's mix.
    shards = [
        (TRAIN_SEED + i * EPISODES_PER_SHARD, i % 3 == 2) for i in range(episodes // EPISODES_PER_SHARD)
    ]
    shards[5:5] = [
        (HELD_OUT_SEED + i * EPISODES_PER_SHARD, i % 3 == 2)
        for i in range(held_out_episodes // EPISODES_PER_SHARD)
    ]
    jobs = [(folder, seed, monitor) for seed, monitor in shards]
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        for _ in tqdm(pool.imap_unordered(_job, jobs), total=len(jobs), desc="collect", unit="shard"):
            pass


def load(folder: Path, held_out: bool) -> dict[str, NDArray[Any]]:
    """All samples of one side of the split, in the order of their seeds."""
    paths = [path for path in _shards(folder) if (int(path.stem) >= HELD_OUT_SEED) == held_out]
    if not paths:
        raise FileNotFoundError(
            f"no demonstrations in {folder}: run `python -m rosa_sim.training collect` first"
        )
    parts = [dict(np.load(path, allow_pickle=False)) for path in paths]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _shards(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.glob("*.npz") if path.stem.isdigit())


def _job(job: tuple[Path, int, bool]) -> Path:
    return collect_shard(*job)


def start_anywhere(world: World, rng: np.random.Generator) -> None:
    """Put the arm anywhere above the table, most often with its gripper open."""
    qpos = world.qpos
    tool = rng.uniform([0.36, -0.32, 0.06], [0.64, 0.36, 0.34])
    qpos[:7] = inverse(tool, qpos[:7], iterations=40)
    qpos[7:9] = rng.choice([0.04, 0.04, rng.uniform(0.0, 0.04)])
    world.set_state(world.seed, qpos)


def _disturb_cube(world: World, rng: np.random.Generator, disturbance: PickDisturbance) -> None:
    speed_at = world.model.joint("cube").dofadr[0]
    if disturbance.push:
        direction = rng.uniform(-np.pi, np.pi)
        world.data.qvel[speed_at : speed_at + 2] = rng.uniform(0.5, 2.5) * np.array(
            [np.cos(direction), np.sin(direction)]
        )
    if disturbance.teleport:
        teleport_cube(world, rng, disturbance.teleport)


def teleport_cube(world: World, rng: np.random.Generator, where: str) -> None:
    """Put the cube `on_mat`, `off_mat`, `off_table` or `in_bin`, at rest."""
    at, speed_at = world.model.joint("cube").qposadr[0], world.model.joint("cube").dofadr[0]
    c = cell()
    (x0, x1), (y0, y1) = c["mat"]["x"], c["mat"]["y"]
    if where == "on_mat":
        xy, z = rng.uniform([x0, y0], [x1, y1]), 0.021
    elif where == "in_bin":
        xy, z = world.bin_position + rng.uniform(-0.05, 0.05, 2), 0.024
    elif where == "off_table":
        xy, z = rng.choice([-1, 1]) * rng.uniform([-0.6, 0.65], [0.9, 1.0]), -0.3
    else:
        for _ in range(100):
            xy, z = rng.uniform([0.22, -0.55], [0.82, 0.56]), 0.021
            margin = c["mat"]["lost_margin"]
            on_mat = x0 - margin < xy[0] < x1 + margin and y0 - margin < xy[1] < y1 + margin
            if not on_mat and np.abs(xy - world.bin_position).max() > 0.105:
                break
    world.data.qpos[at : at + 3] = [*xy, z]
    world.data.qvel[speed_at : speed_at + 6] = 0.0


def displaced(chunk: NDArray[np.float32], rng: np.random.Generator, chance: float) -> NDArray[np.float64]:
    """The expert's chunk as executed: always with a little noise, sometimes with a smooth displacement."""
    executed = chunk.astype(np.float64)
    if rng.random() < chance:
        ramp = np.linspace(0.2, 1.0, len(chunk))[:, None]
        executed[:, :3] += ramp * rng.normal(0.0, [0.02, 0.02, 0.012])
    executed[:, :3] += rng.normal(0.0, 0.003, (len(chunk), 3))
    executed[:, 2] = np.maximum(executed[:, 2], 0.012)
    return executed
