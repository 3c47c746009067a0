"""The backbone learns to see, before the policy learns to act: where cube and bin are, in both cameras' pictures.

It takes the place of weights from ImageNet, which hardly see a cube of five pixels.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from rosa_sim.training.act.backbone import CELLS, WIDTHS, NarrowResNet
from rosa_sim.training.act.pictures import augmented, to_network
from rosa_sim.training.networks.precision import mixed

BATCH, RATE = 64, 3e-3
HELD_OUT, LOOK_EVERY, KEEP_EVERY = 256, 200, 200
NEAR_M = 0.12  # the wrist camera sees a cube that is no farther from the tool, along x and y
Data = dict[str, NDArray[Any]]


class Eyes(nn.Module):
    """The backbone, and where its features say that cube and bin are: for training only."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = NarrowResNet()
        self.front = nn.Linear(WIDTHS[-1] * CELLS, 5)  # cube (x, y, z), bin (x, y)
        self.wrist = nn.Linear(WIDTHS[-1] * CELLS, 3)  # cube from the tool

    def forward(self, front: Tensor, wrist: Tensor) -> tuple[Tensor, Tensor]:
        # In one batch: the statistics of its normalisation are those of both cameras, as the backbone is.
        maps = self.backbone(torch.cat([front, wrist])).flatten(1)
        return self.front(maps[: len(front)]), self.wrist(maps[len(front) :])


def targets(data: Data) -> tuple[Tensor, Tensor, Tensor]:
    """What `Eyes` shall say, about -1..1, and of which rows the wrist camera can know `(n,)`."""
    cube = np.clip((data["cube"] - [0.5, 0.0, 0.1]) / [0.2, 0.3, 0.2], -2.0, 2.0)
    where = np.concatenate([cube, (data["bin"] - [0.5, 0.31]) / 0.1], axis=1)
    away = (data["cube"] - data["tool"]).astype(np.float64)
    near = np.abs(away[:, :2]).max(axis=1) < NEAR_M
    plain = [torch.from_numpy(one.astype(np.float32)) for one in (where, np.clip(away / 0.1, -3, 3), near)]
    return plain[0], plain[1], plain[2]


def fit_eyes(data: Data, steps: int, path: Path) -> Path:
    """Train on `record.load_truth`; goes on from `path` where there is one. Writes `path` now and then."""
    torch.manual_seed(0)
    eyes = Eyes()
    eyes.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # not in torch's types
    first = load_eyes(eyes, path) if path.is_file() else 0
    where, away, near = targets(data)
    rng = np.random.default_rng([41, first])
    order = np.random.default_rng(40).permutation(len(where))
    count = min(HELD_OUT, len(order) // 5)
    held, rows = order[:count], order[count:]
    optimiser = torch.optim.AdamW(eyes.parameters(), lr=RATE, weight_decay=1e-2)
    bar = tqdm(range(first, steps), initial=first, total=steps, desc="eyes", unit="step", mininterval=10.0)
    for step in bar:
        warm = min(1.0, (step - first + 1) / 50)
        rate = RATE * warm * (0.5 * (1 + math.cos(math.pi * step / steps)) * 0.98 + 0.02)
        for group in optimiser.param_groups:
            group["lr"] = rate
        batch = rng.choice(rows, BATCH)
        pictures = (augmented(data[name][batch], rng) for name in ("front", "wrist"))
        with mixed():
            front, wrist = eyes(*(one.to(memory_format=torch.channels_last) for one in pictures))
        off_wrist = _off(wrist.float(), away[batch]).mean(1) * near[batch]
        loss = _off(front.float(), where[batch]).mean() + off_wrist.mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(eyes.parameters(), 1.0)
        optimiser.step()
        if (step + 1) % LOOK_EVERY == 0 or step + 1 == steps:
            tqdm.write(f"eyes, step {step + 1}: {judged(eyes, data, held)}")
        if (step + 1) % KEEP_EVERY == 0 or step + 1 == steps:
            _keep(eyes, step + 1, path)
    return path


def _off(said: Tensor, true: Tensor) -> Tensor:
    return functional.smooth_l1_loss(said, true, beta=0.05, reduction="none")


def judged(eyes: Eyes, data: Data, rows: NDArray[np.int64]) -> str:
    """How far off the eyes are on rows that they were not trained on, medians in mm."""
    where, away, near = (one[rows] for one in targets(data))
    eyes.eval()
    with torch.no_grad():
        front, wrist = eyes(to_network(data["front"][rows]), to_network(data["wrist"][rows]))
    eyes.train()
    scale = torch.tensor([200.0, 300.0])
    cube = ((front - where)[:, :2] * scale).norm(dim=1)
    bin_ = ((front - where)[:, 3:] * 100).norm(dim=1)
    seen = ((wrist - away)[near > 0][:, :2] * 100).norm(dim=1)
    return (
        f"cube {cube.median():.0f} mm off, bin {bin_.median():.0f}; the wrist's cube {seen.median():.0f}"
        f" of {len(seen)} looks"
    )


def load_eyes(eyes: Eyes, path: Path) -> int:
    """Fill `eyes`; returns the steps that they were trained for."""
    tensors = load_file(str(path))
    step = int(tensors.pop("step"))
    eyes.load_state_dict(tensors)
    return step


def _keep(eyes: Eyes, step: int, path: Path) -> None:
    tensors = {name: value.contiguous() for name, value in eyes.state_dict().items()}
    scratch = path.with_suffix(".tmp")
    save_file({**tensors, "step": torch.tensor(step)}, str(scratch))
    scratch.rename(path)
