"""Teaches the flow policy and the task monitor of the pick-and-place cell: their losses and sample weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from rosa_server.models.panda.common import proprioception
from rosa_server.models.panda.flow_policy import CHUNK, HORIZON, FlowPolicy, to_network
from rosa_server.models.panda.task_monitor import TaskMonitor
from rosa_sim.training.networks.learn import augmented, ship, train

FIELDS_PER_SAMPLE = 6  # (noise, time) pairs per sample: the field is cheap next to the pictures
POLICY_FILE, MONITOR_FILE = "panda_flow_policy.safetensors", "panda_task_monitor.safetensors"


def fit_policy(data: dict[str, NDArray[Any]], steps: int, work: Path) -> Path:
    """Conditional flow matching (Lipman et al. 2023, eq. 23), plus a small loss on the positions of cube and bin."""
    told, tool = proprioception(data["joint_position"], data["gripper_width"])
    chunks = torch.from_numpy(to_network(data["chunk"], tool))
    where_is = places(data)
    step_weight = torch.ones(HORIZON)
    step_weight[HORIZON // 2 :] = 0.4  # only the first half is executed
    step_weight = step_weight.repeat_interleave(4)

    def loss_of(network: nn.Module, rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        assert isinstance(network, FlowPolicy)
        front, wrist = (augmented(data[name][rows], rng, shift=1) for name in ("front", "wrist"))
        jitter = 0.005 * torch.randn(len(rows), told.shape[1])
        condition = network.see(front, wrist, told[rows] + jitter)
        target = chunks[rows].repeat(FIELDS_PER_SAMPLE, 1)
        noise = torch.randn(len(target), CHUNK)
        time = torch.from_numpy(rng.random(len(target)).astype("f4"))
        noisy = noise + time[:, None] * (target - noise)
        field = network.velocity(noisy, time, condition.repeat(FIELDS_PER_SAMPLE, 1))
        matching = ((field - (target - noise)) ** 2 * step_weight).mean()
        where = functional.smooth_l1_loss(network.where(condition), where_is[rows], beta=0.1)
        return matching + where

    torch.manual_seed(0)
    network = train(FlowPolicy(), loss_of, acting_weights(data), steps, work / "policy.safetensors", "policy")
    return ship(network, POLICY_FILE, "rosa/panda-flow-policy", steps, len(tool))


def fit_monitor(data: dict[str, NDArray[Any]], steps: int, work: Path) -> Path:
    """Cross entropy over balanced batches, plus the same small loss on the positions of cube and bin."""
    told, _ = proprioception(data["joint_position"], data["gripper_width"])
    labels = torch.from_numpy(data["outcome"])
    where_is = places(data)

    def loss_of(network: nn.Module, rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        assert isinstance(network, TaskMonitor)
        front, wrist = (augmented(data[name][rows], rng, shift=1) for name in ("front", "wrist"))
        features = network.see(front, wrist, told[rows] + 0.005 * torch.randn(len(rows), told.shape[1]))
        where = functional.smooth_l1_loss(network.where(features), where_is[rows], beta=0.1)
        verdict = functional.cross_entropy(network.leave(features), labels[rows], label_smoothing=0.02)
        return verdict + 0.5 * where

    counts = np.bincount(data["outcome"], minlength=3)
    weights = np.array([0.5, 0.22, 0.28])[data["outcome"]] / counts[data["outcome"]]
    torch.manual_seed(1)
    network = train(TaskMonitor(), loss_of, weights, steps, work / "monitor.safetensors", "monitor")
    return ship(network, MONITOR_FILE, "rosa/panda-task-monitor", steps, len(labels))


def acting_weights(data: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Of looks for a policy `(n,)`: more of those at a still arm, fewer of those after the end."""
    return np.where(data["settled"], 2.0, 1.0) * np.where(data["outcome"] == 0, 1.0, 0.35)


def places(data: dict[str, NDArray[Any]]) -> Tensor:
    """Block and bin `(n, 5)` about -1..1; a block that fell off the table counts as far below it."""
    cube = np.clip((data["block_xyz"][:, 0] - [0.5, 0.03, 0.1]) / [0.2, 0.3, 0.2], -2.0, 2.0)
    bin_xy = (data["bin_xy"][:, 0] - [0.5, 0.31]) / 0.1
    return torch.from_numpy(np.concatenate([cube, bin_xy], axis=1).astype(np.float32))
