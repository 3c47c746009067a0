"""`rosa/panda-flow-policy`: a flow-matching action model for one Panda and two 96 x 96 cameras.

It sees pictures, joint positions and gripper width, nothing else. The network is trained in tool space: a chunk is 16
steps of 50 ms of tool displacement from where the tool is now and gripper opening. Sampling integrates the learned
velocity field from Gaussian noise (Lipman et al., Flow Matching for Generative Modeling, 2023, eq. 22; Black et al.,
pi0, 2024) and inverse kinematics turns the path into joint positions, tool pointing down.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.kinematics import inverse_path
from rosa_server.models.panda import MAX_WIDTH_M, PandaBackend
from rosa_server.models.vision import Encoder

HORIZON = 16
STEP_S = 0.05
CHUNK = HORIZON * 4
DISPLACEMENT_M = 0.15  # scale of the network's tool displacements
REACH_LOW_M, REACH_HIGH_M = np.array([0.28, -0.45, 0.008]), np.array([0.72, 0.50, 0.60])  # of a sane chunk


class FlowPolicy(nn.Module):
    """Two encoders, a condition and a residual velocity field over `(16, 4)` chunks."""

    def __init__(self, width: int = 512, blocks: int = 3) -> None:
        super().__init__()
        self.front = Encoder()
        self.wrist = Encoder()
        self.condition = nn.Sequential(
            nn.Linear(self.front.features + self.wrist.features + 11, width),
            nn.SiLU(),
            nn.Linear(width, width),
        )
        self.where = nn.Linear(width, 5)  # training only: cube (x, y, z) and bin (x, y), to teach the eyes
        self.enter = nn.Linear(CHUNK, width)
        self.time = nn.Linear(32, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(blocks)
        )
        self.leave = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, CHUNK))

    def see(self, front: Tensor, wrist: Tensor, proprioception: Tensor) -> Tensor:
        """Pictures `(n, 3, 96, 96)` and proprioception `(n, 11)` -> condition `(n, width)`."""
        features = torch.cat([self.front(front), self.wrist(wrist), proprioception], dim=-1)
        condition: Tensor = self.condition(features)
        return condition

    def velocity(self, chunk: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        """The field at noisy chunks `(n, 64)` and times `(n,)` in 0 (noise) .. 1 (action)."""
        angles = time[:, None] * torch.pi * 2.0 ** torch.arange(-1, 4, 5 / 16, device=time.device)
        hidden = self.enter(chunk) + self.time(torch.cat([angles.sin(), angles.cos()], dim=-1)) + condition
        for block in self.blocks:
            hidden = hidden + block(hidden)
        field: Tensor = self.leave(hidden)
        return field

    @torch.inference_mode()
    def sample(self, condition: Tensor, noise: Tensor, steps: int = 8) -> Tensor:
        """Chunks `(n, 64)` from `noise` `(n, 64)`, by Euler steps."""
        return self.refine(condition, noise, steps)[0]

    @torch.inference_mode()
    def refine(self, condition: Tensor, noise: Tensor, steps: int = 8) -> tuple[Tensor, Tensor]:
        """As `sample`; also by how much each Euler step changed the chunks, `(n, steps, 64)`."""
        chunk, updates = noise, []
        for i in range(steps):
            time = torch.full((len(chunk),), i / steps, device=chunk.device)
            updates.append(self.velocity(chunk, time, condition) / steps)
            chunk = chunk + updates[-1]
        return chunk, torch.stack(updates, dim=1)


def to_network(path: NDArray[np.floating], tool: NDArray[np.floating]) -> NDArray[np.float32]:
    """Tool positions and widths `(n, 16, 4)` m -> what the network speaks `(n, 64)`."""
    moves = (path[..., :3] - tool[:, None]) / DISPLACEMENT_M
    grip = path[..., 3:] / MAX_WIDTH_M * 2 - 1
    return np.concatenate([moves, grip], axis=-1).reshape(len(path), CHUNK).astype(np.float32)


def from_network(chunk: NDArray[np.floating], tool: NDArray[np.floating]) -> NDArray[np.float64]:
    """The inverse of `to_network`, kept inside the workspace and the gripper's range."""
    steps = chunk.reshape(len(chunk), HORIZON, 4).astype(np.float64)
    moves = np.clip(steps[..., :3] * DISPLACEMENT_M + tool[:, None], REACH_LOW_M, REACH_HIGH_M)
    # The gripper is asked to open or to close, nothing between: half a grasp drops the object.
    width = np.where(steps[..., 3:] > 0.0, MAX_WIDTH_M, 0.0)
    return np.concatenate([moves, width], axis=-1)


class FlowPolicyBackend(PandaBackend[FlowPolicy]):
    """Answers `actions` `(16, 8)` float32, joint positions rad and gripper width m, and `step_s`, one row's time."""

    memory_mb = 120.0

    def __init__(self, weights: str = "", seed: int = 0, flow_steps: int = 8, device: str = "cpu") -> None:
        """`weights`: a safetensors path, default the shipped ones. The same `seed` and input give the same chunk."""
        super().__init__(FlowPolicy, weights, "panda_flow_policy.safetensors", device)
        self._seed = seed
        self._flow_steps = flow_steps

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One chunk per input, in one forward pass."""
        network, look = self.network, self.look(batch)
        # The same noise for every request: an answer does not depend on who else is in the batch.
        noise = torch.randn(1, CHUNK, generator=torch.Generator().manual_seed(self._seed)).expand(
            len(batch), -1
        )
        with torch.inference_mode():
            condition = network.see(*look.pictures, look.told)
            refined, updates = network.refine(condition, noise.to(self._device), self._flow_steps)
        path = from_network(refined.cpu().numpy(), look.tool_m)
        steps = updates.cpu().numpy().reshape(len(batch), -1, HORIZON, 4)
        joints = inverse_path(path[..., :3], look.q_rad)
        actions = np.concatenate([joints, path[..., 3:]], axis=-1).astype(np.float32)
        step_s = np.array([STEP_S], np.float32)
        return [
            ModelOutput({"actions": chunk, "step_s": step_s}, updates=update)
            for chunk, update in zip(actions, steps, strict=True)
        ]
