"""`rosa/panda-task-monitor`: is the task ongoing, done or failed? A small network over one look of both cameras.

done: the cube lies in the bin and the gripper has let go. failed: the cube is off the mat or off the table and the arm
does not hold it. The robot acts on both, so a wrong "done" or "failed" costs more than a late one: either is said only
when the network is surer of it than `certainty`; otherwise the answer is "ongoing", and the next look decides. A
picture outside the range that the model was trained on is never "done"; its text says why (`picture_range.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.panda.common import PandaBackend
from rosa_server.models.panda.picture_range import PictureRange
from rosa_server.models.panda.vision import Encoder

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


class TaskMonitorBackend(PandaBackend[TaskMonitor]):
    """Answers a verdict, "ongoing", "done" or "failed"; `text` says why a picture is out of range."""

    memory_mb = 80.0

    def __init__(
        self, weights: str = "", certainty: float = CERTAINTY, device: str = "cpu", range_check: bool = True
    ) -> None:
        """`weights`: a safetensors path, default the shipped ones.

        The range of its pictures lies beside it (`NAME.range.json`); own weights without such a file are not checked.
        """
        if not 0.34 <= certainty < 1.0:
            raise ValueError(f"TaskMonitorBackend: certainty must be in [0.34, 1), got {certainty}")
        super().__init__(TaskMonitor, weights, "panda_task_monitor.safetensors", device)
        self._certainty = certainty
        self._range_check = range_check
        self._range: PictureRange | None = None

    def load(self) -> None:
        """Read the weights, and the range of pictures that they were trained on."""
        super().load()
        path = self._path.with_suffix(".range.json")
        self._range = PictureRange.read(path) if self._range_check and path.is_file() else None

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One verdict per input, in one forward pass."""
        network, look = self.network, self.look(batch)
        with torch.inference_mode():
            probabilities = torch.softmax(network(*look.pictures, look.told), dim=-1).cpu().numpy()
        said = verdicts(probabilities, self._certainty)
        return [self._answer(verdict, one) for verdict, one in zip(said, batch, strict=True)]

    def _answer(self, verdict: str, seen: ModelInput) -> ModelOutput:
        if self._range is None:
            return ModelOutput(verdict=verdict)
        verdict, why = self._range.restrained(verdict, seen.images["front"])
        return ModelOutput(verdict=verdict, text=why)
