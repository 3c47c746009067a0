"""`rosa/panda-flow-policy`: a flow-matching action model for one Panda and two 96 x 96 cameras.

It sees pictures, joint positions and gripper width, nothing else. The network is trained in tool space: a chunk is 16
steps of 50 ms of tool displacement from where the tool is now and gripper opening. Sampling integrates the learned
velocity field from Gaussian noise (Lipman et al., Flow Matching for Generative Modeling, 2023, eq. 22; Black et al.,
pi0, 2024) and inverse kinematics turns the path into joint positions, tool pointing down.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput, check_batch
from rosa_server.models.kinematics import forward, inverse_path
from rosa_server.models.vision import IMAGE_SIZE, WEIGHTS_DIR, Encoder, load_weights, to_tensor

HORIZON = 16
STEP_S = 0.05
CHUNK = HORIZON * 4
MAX_WIDTH_M = 0.08
DISPLACEMENT_M = 0.15  # scale of the network's tool displacements
CENTRE_M = np.array([0.5, 0.03, 0.2])  # of the workspace, for the tool position it is told
REACH_LOW_M, REACH_HIGH_M = np.array([0.28, -0.45, 0.008]), np.array([0.72, 0.50, 0.60])  # of a sane chunk
INPUT_SPEC = InputSpec(
    images={"front": (IMAGE_SIZE, IMAGE_SIZE), "wrist": (IMAGE_SIZE, IMAGE_SIZE)},
    state={"joint_position": 7, "gripper_width": 1},
)


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
        chunk = noise
        for i in range(steps):
            time = torch.full((len(chunk),), i / steps, device=chunk.device)
            chunk = chunk + self.velocity(chunk, time, condition) / steps
        return chunk


def proprioception(
    q_rad: NDArray[np.float32], width_m: NDArray[np.float32]
) -> tuple[Tensor, NDArray[np.float64]]:
    """What the network is told of the arm `(n, 11)`, and the tool positions `(n, 3)` m, from joints `(n, 7)`."""
    tool = forward(q_rad)[0]
    told = np.concatenate(
        [q_rad / 2.0, width_m[:, None] / MAX_WIDTH_M * 2 - 1, (tool - CENTRE_M) / 0.2], axis=-1
    )
    return torch.from_numpy(told.astype(np.float32)), tool


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


class FlowPolicyBackend:
    """Answers `actions` `(16, 8)` float32, joint positions rad and gripper width m, and `step_s`, one row's time."""

    input_spec = INPUT_SPEC
    max_batch = 16
    memory_mb = 120.0

    def __init__(self, weights: str = "", seed: int = 0, flow_steps: int = 8, device: str = "cpu") -> None:
        """`weights`: a safetensors path, default the shipped ones. The same `seed` and input give the same chunk."""
        self._path = Path(weights) if weights else WEIGHTS_DIR / "panda_flow_policy.safetensors"
        self._seed = seed
        self._flow_steps = flow_steps
        self._device = device
        self._network: FlowPolicy | None = None

    def load(self) -> None:
        """Read the weights (under 0.1 s)."""
        # A worker shares its machine; two threads were ten times slower on a busy one.
        torch.set_num_threads(1)
        network = FlowPolicy().eval()
        load_weights(network, self._path)
        self._network = network.to(self._device)

    def warm_up(self) -> None:
        """One pass of one and of a full batch."""
        blank = np.zeros((IMAGE_SIZE, IMAGE_SIZE, 3), np.uint8)
        state = {"joint_position": np.zeros(7, np.float32), "gripper_width": np.zeros(1, np.float32)}
        one = ModelInput("warm_up", images={"front": blank, "wrist": blank}, state=state)
        for size in (1, self.max_batch):
            self.infer([one] * size)

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One chunk per input, in one forward pass."""
        if self._network is None:
            raise RuntimeError("FlowPolicyBackend: call load() before infer()")
        check_batch(self.input_spec, batch, self.max_batch)
        q = np.stack([one.state["joint_position"] for one in batch]).astype(np.float32)
        width = np.array([one.state["gripper_width"][0] for one in batch], dtype=np.float32)
        told, tool = proprioception(q, width)
        pictures = [to_tensor(np.stack([one.images[name] for one in batch])) for name in ("front", "wrist")]
        # The same noise for every request: an answer does not depend on who else is in the batch.
        noise = torch.randn(1, CHUNK, generator=torch.Generator().manual_seed(self._seed)).expand(
            len(batch), -1
        )
        with torch.inference_mode():
            condition = self._network.see(*(p.to(self._device) for p in pictures), told.to(self._device))
            chunk = self._network.sample(condition, noise.to(self._device), self._flow_steps).cpu().numpy()
        path = from_network(chunk, tool)
        joints = inverse_path(path[..., :3], q)
        actions = np.concatenate([joints, path[..., 3:]], axis=-1).astype(np.float32)
        step_s = np.array([STEP_S], np.float32)
        return [ModelOutput(arrays={"actions": chunk_of_one, "step_s": step_s}) for chunk_of_one in actions]

    def close(self) -> None:
        """Forget the network."""
        self._network = None
