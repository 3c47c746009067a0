"""LeRobot's ACT, with LeRobot's own processors and loss, on the recorded dataset. Writes a checkpoint as LeRobot does.

First with the eyes as they are: what they see of every frame is computed once, so that a step costs next to
nothing. Then everything together.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.datasets.factory import IMAGENET_STATS
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm import tqdm

from rosa_sim.training.act.act_cell import ACTION, PICTURES, ROWS, STATE
from rosa_sim.training.act.backbone import WIDTHS, Given, NarrowResNet, padded, widened
from rosa_sim.training.act.eyes import Eyes, load_eyes
from rosa_sim.training.act.pictures import augmented
from rosa_sim.training.act.record import COMMANDED, REPO
from rosa_sim.training.networks.precision import mixed

BATCH = 64
HEAD_RATE, JOINT_RATE = 6e-4, 2e-4
VIEWS = 3  # of a frame, each changed in its own way
KEEP_EVERY = 500
JITTER_M = 0.002  # of the state
SLICE = 128
Data = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Frames:
    """A dataset in memory; `(n, ...)` each, chunks and paddings as LeRobot gives them."""

    pictures: dict[str, NDArray[np.uint8]]
    state: Tensor
    chunk: Tensor  # (n, 8, 4)
    is_pad: Tensor  # (n, 8)
    stats: dict[str, Any]


def load_frames(root: Path) -> Frames:
    """The dataset, with the chunk of each frame: where its episode ends, the last action is repeated, and padding."""
    dataset = LeRobotDataset(REPO, root=root)
    held, count = dataset.hf_dataset, len(dataset)
    # By slices, and chunks as LeRobot's items have them: one item after another takes five times as long.
    columns: dict[str, list[Tensor]] = {name: [] for name in (STATE, ACTION, COMMANDED, "episode_index")}
    pictures: dict[str, list[NDArray[np.uint8]]] = {name: [] for name in PICTURES.values()}
    for start in tqdm(range(0, count, SLICE), desc="load", unit=f"x{SLICE}", mininterval=10.0):
        part = held[start : start + SLICE]
        for name, found in columns.items():
            found.append(torch.stack(part[name]))
        for name, seen in pictures.items():
            seen.append((torch.stack(part[name]) * 255).round().byte().permute(0, 2, 3, 1).numpy())
    state, action, commanded, episode = (torch.cat(found) for found in columns.values())
    index = torch.arange(count)[:, None] + torch.arange(ROWS)
    last = torch.cat([(episode[1:] != episode[:-1]).nonzero()[:, 0], torch.tensor([count - 1])])
    ends = last[torch.searchsorted(last, torch.arange(count))][:, None]
    chunk = action[index.minimum(ends)]
    # A robot is asked where it rests. Frames of a moving one are made to be about the same: their first step also goes
    # the way by which the tool lags behind.
    chunk[:, 0, :3] += commanded - state[:, :3]
    stats = {**dataset.meta.stats, **dict.fromkeys(PICTURES.values(), IMAGENET_STATS)}
    return Frames(
        {name: np.concatenate(found) for name, found in pictures.items()}, state, chunk, index > ends, stats
    )


def make_config() -> ACTConfig:
    """A small ACT: 8 steps of 50 ms from two 96 x 96 pictures and the tool's place."""
    return ACTConfig(
        input_features={
            **{name: PolicyFeature(FeatureType.VISUAL, (3, 96, 96)) for name in PICTURES.values()},
            STATE: PolicyFeature(FeatureType.STATE, (4,)),
        },
        output_features={ACTION: PolicyFeature(FeatureType.ACTION, (4,))},
        chunk_size=ROWS,
        n_action_steps=ROWS,
        dim_model=192,
        n_heads=4,
        dim_feedforward=512,
        n_encoder_layers=2,
        n_decoder_layers=1,
        use_vae=False,  # the expert does the same in the same place
        dropout=0.0,
        pretrained_backbone_weights=None,
        device="cpu",
        push_to_hub=False,
    )


def fit_act(root: Path, eyes_path: Path, folder: Path, head_steps: int, joint_steps: int) -> Path:
    """Train and write the checkpoint `folder`."""
    began_s, used_s = time.monotonic(), time.process_time()
    frames = load_frames(root)
    eyes = Eyes()
    eyes_steps = load_eyes(eyes, eyes_path)
    narrow = eyes.backbone.eval()  # the statistics of its normalisation stay
    torch.manual_seed(1)
    policy = ACTPolicy(make_config())
    wide, policy.model.backbone = policy.model.backbone, Given()
    processors = make_pre_post_processors(policy.config, dataset_stats=frames.stats)

    def keep() -> None:
        wide.load_state_dict(widened(narrow.state_dict(), wide.state_dict()))
        policy.model.backbone = wide
        for one in (policy, *processors):
            one.save_pretrained(folder)
        policy.model.backbone = Given()
        told: dict[str, float] = {
            "frames": len(frames.state),
            "eyes_steps": eyes_steps,
            "steps": head_steps,
            "joint_steps": joint_steps,
        }
        told |= {
            "minutes": (time.monotonic() - began_s) / 60,
            "core_minutes": (time.process_time() - used_s) / 60,
        }
        (folder / "training.json").write_text(
            json.dumps({name: round(one, 1) for name, one in told.items()}) + "\n"
        )

    if head_steps:
        seen = look_at_all(narrow, frames)
        _train(
            policy,
            processors[0],
            frames,
            head_steps,
            HEAD_RATE,
            [],
            lambda rows, rng: seen[rows, rng.integers(VIEWS)],
            keep,
        )
    if joint_steps:

        def looked(rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
            told = [augmented(frames.pictures[name][rows], rng) for name in PICTURES.values()]
            with mixed():
                maps = narrow(torch.cat(told).to(memory_format=torch.channels_last)).float()
            by_picture: Tensor = maps.unflatten(0, (len(told), len(rows)))
            return by_picture.transpose(0, 1)

        _train(
            policy, processors[0], frames, joint_steps, JOINT_RATE, list(narrow.parameters()), looked, keep
        )
    return folder


def look_at_all(narrow: NarrowResNet, frames: Frames) -> Tensor:
    """What the eyes see `(n, views, cameras, 128, 3, 3)`."""
    rng, count = np.random.default_rng(51), len(frames.state)
    seen = torch.empty((count, VIEWS, len(frames.pictures), WIDTHS[-1], 3, 3))
    with torch.inference_mode(), mixed():
        for start in tqdm(range(0, count, 128), desc="look", unit="batch", mininterval=10.0):
            rows = slice(start, min(start + 128, count))
            for view in range(VIEWS):
                for camera, pictures in enumerate(frames.pictures.values()):
                    seen[rows, view, camera] = narrow(augmented(pictures[rows], rng))
    return seen


def _train(
    policy: ACTPolicy,
    before: Any,
    frames: Frames,
    steps: int,
    rate: float,
    eyes: list[nn.Parameter],
    maps_of: Callable[[NDArray[np.int64], np.random.Generator], Tensor],
    keep: Callable[[], None],
) -> None:
    """`before`: LeRobot's preprocessor. `eyes`: parameters that are trained besides the policy's.

    `maps_of(rows, rng)`: what the eyes see of a batch, `(n, cameras, 128, 3, 3)`. `keep()` writes the checkpoint.
    """
    rng = np.random.default_rng([52, steps])
    trained = [*policy.parameters(), *eyes]
    optimiser = torch.optim.AdamW(trained, lr=rate, weight_decay=policy.config.optimizer_weight_decay)
    policy.train()
    shown = math.nan
    bar = tqdm(range(steps), desc="fit", unit="step", mininterval=10.0)
    for step in bar:
        share = min(1.0, (step + 1) / 100) * (0.5 * (1 + math.cos(math.pi * step / steps)) * 0.98 + 0.02)
        for group in optimiser.param_groups:
            group["lr"] = rate * share
        rows = rng.integers(0, len(frames.state), BATCH)
        maps = maps_of(rows, rng)
        batch = before(
            {
                STATE: frames.state[rows] + JITTER_M * torch.randn(BATCH, 4),
                ACTION: frames.chunk[rows],
                f"{ACTION}_is_pad": frames.is_pad[rows],
            }
        )
        batch |= {name: padded(maps[:, camera]) for camera, name in enumerate(frames.pictures)}
        with mixed():
            loss, _ = policy.forward(batch)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        shown = float(loss.detach()) if math.isnan(shown) else 0.98 * shown + 0.02 * float(loss.detach())
        if (step + 1) % 50 == 0:
            bar.set_postfix(loss=f"{shown:.4f}")
        if (step + 1) % KEEP_EVERY == 0 or step + 1 == steps:
            tqdm.write(f"fit, step {step + 1}: loss {shown:.4f}")
            keep()
