"""Demonstrations as a LeRobot dataset: the scripted expert in the cell, 20 frames a second.

Each episode is a piece of 0.8 s of another cell, from any moment of the task: on a small machine rendering is
what takes time, and many cells teach more than long episodes. What went wrong before the piece began (the tool was
displaced, the arm began elsewhere) is put right within it; only what the expert does is recorded.

Beside the dataset are `looks.npz`, single pictures of other cells, and `frames.npz`, those of the dataset, both with
where cube and bin are. They are for the eyes alone (`eyes.py`); the policy learns from the dataset.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from numpy.typing import NDArray
from tqdm import tqdm

from rosa_sim.cell.expert import expert_chunk
from rosa_sim.training.act.act_cell import ACTION, PICTURES, ROWS, STATE, TASK, ActCell
from rosa_sim.training.data.moves import displaced, disturb, start_anywhere

REPO = "rosa/pick_place_expert"
LOOKS, FRAMES = "looks.npz", "frames.npz"
COMMANDED = (
    "commanded"  # where the tool was told to be when the frame was taken: while it moves it lags behind
)
RATE_HZ = 20
ROUNDS = 2  # of an episode
FIRST_SEED, FIRST_LOOK = 700_000_000, 800_000_000  # cells that nothing else uses
MAX_SKIPPED_ROUNDS = 12  # a task takes the expert about ten
FEATURES: dict[str, dict[str, Any]] = {
    **{
        name: {"dtype": "image", "shape": (96, 96, 3), "names": ["height", "width", "channels"]}
        for name in PICTURES.values()
    },
    STATE: {"dtype": "float32", "shape": (4,), "names": ["x", "y", "z", "gripper"]},
    COMMANDED: {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]},
    ACTION: {"dtype": "float32", "shape": (4,), "names": ["dx", "dy", "dz", "gripper"]},
}
Row = dict[str, Any]


def look(folder: Path, looks: int) -> None:
    """Write `folder/looks.npz` anew."""
    cell, truths = ActCell(), list[Row]()
    try:
        for number in tqdm(range(looks), desc="look", unit="cell", mininterval=10.0):
            rng = np.random.default_rng([31, number])
            _anywhere(cell, FIRST_LOOK + number, rng)
            truths.append(_truth(cell, cell.look(int(rng.integers(85, 96)))))
    finally:
        cell.close()
    _save(truths, folder / LOOKS)


def record(folder: Path, episodes: int) -> None:
    """Write `folder/dataset` and `folder/frames.npz` anew."""
    shutil.rmtree(folder / "dataset", ignore_errors=True)
    dataset = LeRobotDataset.create(
        REPO, RATE_HZ, FEATURES, root=folder / "dataset", robot_type="panda", use_videos=False
    )
    cell, truths = ActCell(), list[Row]()
    try:
        for number in tqdm(range(episodes), desc="record", unit="episode", mininterval=10.0):
            rng = np.random.default_rng([32, number])
            cell.reset(FIRST_SEED + number)
            _begin(cell, rng)
            for frame in _rounds(cell, rng, truths):
                dataset.add_frame(frame)
            dataset.save_episode()
    finally:
        cell.close()
        dataset.finalize()
    _save(truths, folder / FRAMES)


def load_truth(folder: Path) -> dict[str, NDArray[Any]]:
    """Both, one after the other; or the one that is there."""
    paths = [folder / name for name in (LOOKS, FRAMES) if (folder / name).is_file()]
    parts = [dict(np.load(path, allow_pickle=False)) for path in paths]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _save(truths: list[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {name: np.stack([one[name] for one in truths]) for name in truths[0]}
    np.savez(path, **arrays)


def _anywhere(cell: ActCell, seed: int, rng: np.random.Generator) -> None:
    """One cell, the arm and the cube anywhere."""
    world = cell.world
    world.reset(seed)
    if rng.random() < 0.7:
        start_anywhere(world, rng)
    if rng.random() < 0.2:
        disturb(world, rng, str(rng.choice(["move", "put", "lose"])), (0, 0))
        world.set_state(world.seed, world.qpos)


def _begin(cell: ActCell, rng: np.random.Generator) -> None:
    """Let the expert come to any moment of the task, disturbed on the way."""
    if rng.random() < 0.3:
        start_anywhere(cell.world, rng)
        cell.settle()
    noise = float(rng.choice([0.0, 0.3]))
    for _ in range(int(rng.integers(0, MAX_SKIPPED_ROUNDS))):
        path = displaced(expert_chunk(cell.world), rng, noise)[:ROWS]
        cell.play_joints(cell.joints_along(path[:, :3]), path[:, 3])
        cell.arm.wait(float(rng.uniform(0.06, 0.16)))


def _rounds(cell: ActCell, rng: np.random.Generator, truths: list[Row]) -> list[Row]:
    """The frames of an episode. The arm rests after each round, as a robot's does while it waits for an answer."""
    frames = list[Row]()
    for _ in range(ROUNDS):
        path = expert_chunk(cell.world)[:ROWS].astype(np.float64)
        told, path_m = cell.tool_m, path[:, :3]
        q_path = cell.joints_along(path_m)
        for row in range(ROWS):
            seen = cell.look(int(rng.integers(85, 96)))
            truths.append(_truth(cell, seen))
            action = np.array([*(path_m[row] - told), path[row, 3]], np.float32)
            frames.append({**seen, COMMANDED: told.astype(np.float32), ACTION: action, "task": TASK})
            cell.play_joints(q_path[row : row + 1], path[row : row + 1, 3])
            told = path_m[row]
        cell.arm.wait(float(rng.uniform(0.06, 0.16)))
    return frames


def _truth(cell: ActCell, seen: Row) -> Row:
    world = cell.world
    return {
        **{name: seen[key] for name, key in PICTURES.items()},
        "tool": seen[STATE][:3],
        "cube": world.block_positions[0].astype(np.float32),
        "bin": world.bin_positions[0].astype(np.float32),
    }
