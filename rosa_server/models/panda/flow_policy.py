"""`rosa/panda-flow-policy`: a flow-matching action model for one Panda and two 96 x 96 cameras.

It sees pictures, joint positions and gripper width, nothing else. The network is trained in tool space: a chunk is 16
steps of 50 ms of tool displacement from where the tool is now and gripper opening. Sampling integrates the learned
velocity field from Gaussian noise (Lipman et al., Flow Matching for Generative Modeling, 2023, eq. 22; Black et al.,
pi0, 2024) and inverse kinematics turns the path into joint positions, tool pointing down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rosa_contract.kinematics.joining import soft_mask
from rosa_contract.wire.overlap import Overlap
from rosa_server.models.backend import Capabilities, ModelInput, ModelOutput
from rosa_server.models.inpainting import Guide, guided
from rosa_server.models.panda.common import MAX_WIDTH_M, PandaBackend
from rosa_server.models.panda.kinematics import forward, inverse_path
from rosa_server.models.panda.vision import Encoder

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

    @torch.no_grad()
    def sample(self, condition: Tensor, noise: Tensor, steps: int = 8) -> Tensor:
        """Chunks `(n, 64)` from `noise` `(n, 64)`, by Euler steps."""
        return self.refine(condition, noise, steps)[0]

    @torch.no_grad()
    def refine(
        self, condition: Tensor, noise: Tensor, steps: int = 8, guide: Guide | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `sample`; also by how much each Euler step changed the chunks, `(n, steps, 64)`.

        With `guide`, the field is bent so that chunks begin as the guide says.
        """

        def field(chunk: Tensor, time: Tensor) -> Tensor:
            return self.velocity(chunk, time, condition)

        chunk, updates = noise, []
        for i in range(steps):
            time = torch.full((len(chunk),), i / steps, device=chunk.device)
            velocity = field(chunk, time) if guide is None else guided(field, chunk, time, guide)
            updates.append(velocity / steps)
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

    def __init__(
        self,
        weights: str = "",
        seed: int = 0,
        flow_steps: int = 8,
        device: str = "cpu",
        seam: str = "blend",
    ) -> None:
        """`weights`: a safetensors path, default the shipped ones. The same `seed` and input give the same chunk.

        `seam`: `inpaint` guides the flow by what the robot plays meanwhile; `blend` leaves that to the worker. Raises
        `ValueError` for any other.
        """
        if seam not in ("blend", "inpaint"):
            raise ValueError(f"seam: expected blend or inpaint, got {seam!r}")
        self.capabilities = Capabilities(inpaints=seam == "inpaint")
        super().__init__(FlowPolicy, weights, "panda_flow_policy.safetensors", device)
        self._seed = seed
        self._flow_steps = flow_steps

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One chunk per input, in one forward pass; those with an overlap join it, in a separate pass.

        A moving arm lags behind its setpoint, which the network never saw in training. So a chunk that joins another is
        made as if the arm stood where the overlap's first step tells it to be, and follows that step; the guide pulls
        it to the steps after. Raises `ValueError` for an overlap that is none of this model's chunks.
        """
        overlaps = [_checked(one.overlap) if self.capabilities.inpaints else None for one in batch]
        network, look = self.network, self.look([_as_told(*one) for one in zip(batch, overlaps, strict=True)])
        # The same noise for every request: an answer does not depend on what else is in the batch.
        noise = torch.randn(1, CHUNK, generator=torch.Generator().manual_seed(self._seed)).to(self._device)
        chunks, updates = np.empty((len(batch), CHUNK)), np.empty((len(batch), self._flow_steps, CHUNK))
        with torch.no_grad():
            front, wrist = look.pictures
            condition = network.see(front, wrist, look.told)
        for joins in (False, True):
            rows = [row for row, overlap in enumerate(overlaps) if (overlap is not None) is joins]
            if rows:
                guide = _guide([overlaps[row] for row in rows], look.tool_m[rows], self._device)
                begins = noise.expand(len(rows), -1)
                refined = network.refine(condition[rows], begins, self._flow_steps, guide if joins else None)
                chunks[rows], updates[rows] = (part.cpu().numpy() for part in refined)
        path = from_network(chunks, look.tool_m)
        joints = inverse_path(path[..., :3], look.q_rad)
        actions = np.concatenate([joints, path[..., 3:]], axis=-1).astype(np.float32)
        step_s = np.array([STEP_S], np.float32)
        steps = updates.reshape(len(batch), -1, HORIZON, 4).astype(np.float32)
        return [
            ModelOutput(
                {"actions": _after(overlap, chunk), "step_s": step_s}, updates=_shifted(overlap, update)
            )
            for overlap, chunk, update in zip(overlaps, actions, steps, strict=True)
        ]

    def warm_up(self) -> None:
        """As for every model; and one chunk that joins another."""
        super().warm_up()
        self.infer([replace(self.blank, overlap=Overlap(np.zeros((2, 8), np.float32), 1, STEP_S))])


def _checked(overlap: Overlap | None) -> Overlap | None:
    """The part of an overlap that falls into a new chunk."""
    if overlap is None:
        return None
    if overlap.actions.shape[1] != 8 or abs(overlap.step_s - STEP_S) > 1e-6:
        shape = overlap.actions.shape
        raise ValueError(
            f"overlap: expected (rows, 8) every {STEP_S} s, got {shape} every {overlap.step_s:g} s"
        )
    return Overlap(overlap.actions[:HORIZON], min(overlap.frozen, HORIZON), overlap.step_s)


def _as_told(one: ModelInput, overlap: Overlap | None) -> ModelInput:
    """The observation with the arm where it was told to be, not where it lags behind."""
    if overlap is None:
        return one
    return replace(one, state={**one.state, "joint_position": overlap.actions[0, :7].astype(np.float32)})


def _guide(overlaps: Sequence[Overlap | None], tool_m: NDArray[np.float64], device: str) -> Guide:
    """The overlaps after their first step in the network's space, as seen from the tool `(n, 3)` m at that step."""
    paths, weights = np.zeros((len(overlaps), HORIZON, 4)), np.zeros((len(overlaps), HORIZON, 4))
    for row, overlap in enumerate(overlaps):
        if overlap is not None and len(overlap.actions) > 1:
            after = overlap.actions[1:]
            paths[row, : len(after), :3] = forward(after[:, :7])[0]
            paths[row, : len(after), 3] = after[:, 7]
            weights[row] = soft_mask(overlap.frozen - 1, len(after), HORIZON)[:, None]
    target = torch.from_numpy(to_network(paths, tool_m))
    spread = torch.from_numpy(weights.reshape(len(overlaps), CHUNK).astype(np.float32))
    return Guide(target.to(device), spread.to(device))


def _after(overlap: Overlap | None, chunk: NDArray[np.float32]) -> NDArray[np.float32]:
    """The answer `(16, 8)`: what is frozen as it plays, then the chunk, which begins after the overlap's first step."""
    if overlap is None:
        return chunk
    joined = np.concatenate([overlap.actions[:1], chunk[:-1]]).astype(np.float32)
    joined[: overlap.frozen] = overlap.actions[: overlap.frozen]
    return joined


def _shifted(overlap: Overlap | None, update: NDArray[np.float32]) -> NDArray[np.float32]:
    """Updates `(flow steps, 16, 4)` by step of the answer; its first one is given and never changed."""
    if overlap is None:
        return update
    return np.concatenate([np.zeros_like(update[:, :1]), update[:, :-1]], axis=1)
