"""Looks at a cell as a training set: shards together, and what follows from their labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.backend import ModelInput
from rosa_sim.cell.layout.hardware import SORT_PARTS, cell
from rosa_sim.training.data.pictures import POLICY_CAMERAS

Data = dict[str, NDArray[Any]]
Split = Literal["train", "choose", "evaluate"]
TRAIN_SEED, HELD_OUT_SEED = 100_000, 500_000  # of the first shards; episodes are evaluated on seeds from 0 on
LOOK_SEED = 100_000_000  # cells of single looks
EVALUATION_SEED = 600_000  # from here on: no choice was ever made by these looks
POINTS = 12  # eight colours, left bin, right bin, hand, tool
HALF_BIN_M = np.array(cell(SORT_PARTS).bins["inner_half"])
RELEASED_M = 0.05  # a block this far from the tool is let go


def load(folder: Path, split: Split, without: tuple[str, ...] = ()) -> Data:
    """All looks of a part of the split, in the order of their seeds, without the named arrays."""
    first, end = {
        "train": (0, HELD_OUT_SEED),
        "choose": (HELD_OUT_SEED, EVALUATION_SEED),
        "evaluate": (EVALUATION_SEED, 1 << 63),
    }[split]
    paths = sorted(path for path in folder.glob("*.npz") if path.stem.isdigit())
    paths = [path for path in paths if first <= int(path.stem) < end]
    if not paths:
        raise FileNotFoundError(
            f"no looks in {folder}: run `python -m rosa_sim.training collect` or `sort_parts_collect` first"
        )
    parts: list[Data] = []
    for path in paths:
        with np.load(path, allow_pickle=False) as shard:
            parts.append({name: shard[name] for name in shard.files if name not in without})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def input_of(data: Data, row: int, component: str, prompt: str = "", blank: bool = False) -> ModelInput:
    """A look as a component of the model gets it."""
    images = {name: data[name][row] * (0 if blank else 1) for name in POLICY_CAMERAS}
    state = {
        "joint_position": data["joint_position"][row],
        "gripper_width": np.array([data["gripper_width"][row]], np.float32),
    }
    return replace(ModelInput(component), prompt=prompt, images=images, state=state)


def points_in_world(data: Data) -> NDArray[np.float32]:
    """Where the 12 points are `(n, 12, 3)` m; nan for blocks and hands that are not there, and off the table."""
    n = len(data["block_xyz"])
    points = np.full((n, POINTS, 3), np.nan, np.float32)
    rows = np.arange(n)[:, None]
    points[rows, data["block_colour"]] = data["block_xyz"]
    points[:, 8:10, :2] = data["bin_xy"]
    points[:, 8:10, 2] = 0.0
    points[:, 10] = data["hand_xyz"]
    points[:, 11] = data["tool"]
    points[points[..., 2] < -0.02] = np.nan
    return points


def target_of(data: Data) -> NDArray[np.float32]:
    """What a subtask is about `(n, 5)`: its block's x, y, z and its bin's x, y, m; nan for a block off the table."""
    rows = np.arange(len(data["colour"]))
    block = points_in_world(data)[rows, data["colour"]]
    return np.concatenate([block, data["bin_xy"][rows, data["bin"]]], axis=1)


def outcome_of_rule(data: Data) -> NDArray[np.int64]:
    """How the whole sort by `rule` stands: 1 done, when every block lies in its bin and is let go; 2 failed, when one
    lies in the wrong bin or outside mat and bins and none is left to move; 0 ongoing."""
    nothing_left = data["plan"][:, 0] < 0
    block = data["block_xyz"]  # (n, 3 blocks, 3)
    side = np.where((data["rule"][:, None] >> data["block_colour"]) & 1, 0, 1)
    bins = np.take_along_axis(data["bin_xy"], side[..., None], axis=1)  # (n, 3 blocks, 2)
    inside = (np.abs(block[..., :2] - bins) < HALF_BIN_M).all(axis=-1) & (block[..., 2] > -0.02)
    away = np.linalg.norm(block - data["tool"][:, None], axis=-1) > RELEASED_M
    done = nothing_left & inside.all(axis=1) & away.all(axis=1)
    return np.where(done, 1, np.where(nothing_left & ~inside.all(axis=1), 2, 0)).astype(np.int64)
