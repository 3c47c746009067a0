"""`rosa/panda-task-monitor`: is the task ongoing, done or failed? A small network over one look of both cameras.

done: the cube lies in the bin and the gripper has let go. failed: the cube is off the mat or off the table and the arm
does not hold it. The robot acts on both, so a wrong "done" or "failed" costs more than a late one: either is said only
when the network is surer of it than `certainty`; otherwise the answer is "ongoing", and the next look decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from rosa_server.models.backend import ModelInput, ModelOutput, check_batch
from rosa_server.models.flow_policy import INPUT_SPEC, proprioception
from rosa_server.models.vision import IMAGE_SIZE, WEIGHTS_DIR, Encoder, load_weights, to_tensor

VERDICTS = ("ongoing", "done", "failed")
CERTAINTY = 0.6


class TaskMonitor(nn.Module):
    """Two encoders and a small classifier."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.front = Encoder()
        self.wrist = Encoder()
        features = self.front.features + self.wrist.features + 11
        self.condition = nn.Sequential(
            nn.Linear(features, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.where = nn.Linear(width, 5)  # training only: cube (x, y, z) and bin (x, y), to teach the eyes
        self.leave = nn.Linear(width, len(VERDICTS))

    def see(self, front: Tensor, wrist: Tensor, proprioception: Tensor) -> Tensor:
        """Pictures `(n, 3, 96, 96)` and proprioception `(n, 11)` -> features `(n, width)`."""
        features: Tensor = self.condition(
            torch.cat([self.front(front), self.wrist(wrist), proprioception], dim=-1)
        )
        return features

    def forward(self, front: Tensor, wrist: Tensor, proprioception: Tensor) -> Tensor:
        """Logits `(n, 3)` in the order of `VERDICTS`."""
        logits: Tensor = self.leave(self.see(front, wrist, proprioception))
        return logits


def verdicts(probabilities: np.ndarray, certainty: float = CERTAINTY) -> list[str]:
    """`(n, 3)` probabilities -> a verdict each; done and failed only above `certainty`."""
    best = probabilities.argmax(axis=1)
    sure = probabilities.max(axis=1) >= certainty
    return [VERDICTS[index] if index == 0 or ok else "ongoing" for index, ok in zip(best, sure, strict=True)]


class TaskMonitorBackend:
    """Answers a verdict: "ongoing", "done" or "failed"."""

    input_spec = INPUT_SPEC
    max_batch = 16
    memory_mb = 80.0

    def __init__(self, weights: str = "", certainty: float = CERTAINTY, device: str = "cpu") -> None:
        """`weights`: a safetensors path, default the shipped ones."""
        if not 0.34 <= certainty < 1.0:
            raise ValueError(f"TaskMonitorBackend: certainty must be in [0.34, 1), got {certainty}")
        self._path = Path(weights) if weights else WEIGHTS_DIR / "panda_task_monitor.safetensors"
        self._certainty = certainty
        self._device = device
        self._network: TaskMonitor | None = None

    def load(self) -> None:
        """Read the weights (under 0.1 s)."""
        # A worker shares its machine; two threads were ten times slower on a busy one.
        torch.set_num_threads(1)
        network = TaskMonitor().eval()
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
        """One verdict per input, in one forward pass."""
        if self._network is None:
            raise RuntimeError("TaskMonitorBackend: call load() before infer()")
        check_batch(self.input_spec, batch, self.max_batch)
        q = np.stack([one.state["joint_position"] for one in batch]).astype(np.float32)
        width = np.array([one.state["gripper_width"][0] for one in batch], dtype=np.float32)
        told, _ = proprioception(q, width)
        pictures = [to_tensor(np.stack([one.images[name] for one in batch])) for name in ("front", "wrist")]
        with torch.inference_mode():
            logits = self._network(*(p.to(self._device) for p in pictures), told.to(self._device))
            probabilities = torch.softmax(logits, dim=-1).cpu().numpy()
        return [ModelOutput(verdict=verdict) for verdict in verdicts(probabilities, self._certainty)]

    def close(self) -> None:
        """Forget the network."""
        self._network = None
