"""What the two small Panda models share: what they see of an observation, and how weights and batches are handled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput, check_batch
from rosa_server.models.panda.kinematics import forward
from rosa_server.models.panda.vision import IMAGE_SIZE, WEIGHTS_DIR, load_weights, to_tensor
from rosa_server.models.stacking import stacked

CAMERAS = ("front", "wrist")
MAX_WIDTH_M = 0.08
CENTRE_M = np.array([0.5, 0.03, 0.2])  # of the workspace, for the tool position that a network is told
INPUT_SPEC = InputSpec(
    images=dict.fromkeys(CAMERAS, (IMAGE_SIZE, IMAGE_SIZE)),
    state={"joint_position": 7, "gripper_width": 1},
)
Network = TypeVar("Network", bound=nn.Module)


def proprioception(
    q_rad: NDArray[np.float32], width_m: NDArray[np.float32]
) -> tuple[Tensor, NDArray[np.float64]]:
    """What a network is told of the arm `(n, 11)`, and the tool positions `(n, 3)` m, from joints `(n, 7)`."""
    tool = forward(q_rad)[0]
    told = np.concatenate(
        [q_rad / 2.0, width_m[:, None] / MAX_WIDTH_M * 2 - 1, (tool - CENTRE_M) / 0.2], axis=-1
    )
    return torch.from_numpy(told.astype(np.float32)), tool


@dataclass(frozen=True)
class Look:
    """A batch as a network sees it, on its device, and as kinematics needs it."""

    pictures: list[Tensor]  # front and wrist, (n, 3, 96, 96)
    told: Tensor  # (n, 11)
    q_rad: NDArray[np.float32]  # (n, 7)
    tool_m: NDArray[np.float64]  # (n, 3)

    def of(self, rows: Sequence[int]) -> Look:
        """These rows, in this order; one may come several times."""
        at = list(rows)
        if at == list(range(len(self.q_rad))):
            return self
        return Look([one[at] for one in self.pictures], self.told[at], self.q_rad[at], self.tool_m[at])


class PandaBackend(ABC, Generic[Network]):
    """A backend around one network; a subclass says what its answers mean."""

    input_spec = INPUT_SPEC
    max_batch = 16

    def __init__(self, make: Callable[[], Network], weights: str, shipped: str, device: str) -> None:
        """`weights`: a safetensors path; empty: the file `shipped`."""
        self._make = make
        self._path = Path(weights) if weights else WEIGHTS_DIR / shipped
        self._device = device
        self._network: Network | None = None

    def load(self) -> None:
        """Read the weights (under 0.1 s)."""
        # A worker shares its machine; two threads were ten times slower on a busy one.
        torch.set_num_threads(1)
        network = self._make().eval()
        load_weights(network, self._path)
        self._network = network.to(self._device)

    @abstractmethod
    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One answer per input, in order."""

    def warm_up(self) -> None:
        """One pass of one and of a full batch."""
        for size in (1, self.max_batch):
            self.infer([self.blank] * size)

    @property
    def blank(self) -> ModelInput:
        """An input of the right shapes that shows nothing."""
        picture = np.zeros((IMAGE_SIZE, IMAGE_SIZE, 3), np.uint8)
        state = {"joint_position": np.zeros(7, np.float32), "gripper_width": np.zeros(1, np.float32)}
        return ModelInput("warm_up", images=dict.fromkeys(CAMERAS, picture), state=state)

    @property
    def network(self) -> Network:
        """Raises `RuntimeError` before `load()`."""
        if self._network is None:
            raise RuntimeError(f"{type(self).__name__}: call load() before infer()")
        return self._network

    def look(self, batch: Sequence[ModelInput]) -> Look:
        """The batch as tensors. Raises `ValueError` for an input that does not match `input_spec`."""
        check_batch(self.input_spec, batch, self.max_batch)
        q = np.stack([one.state["joint_position"] for one in batch]).astype(np.float32)
        width = np.array([one.state["gripper_width"][0] for one in batch], dtype=np.float32)
        told, tool = proprioception(q, width)
        pictures = [to_tensor(stacked([one.images[camera] for one in batch])) for camera in CAMERAS]
        return Look([picture.to(self._device) for picture in pictures], told.to(self._device), q, tool)

    def close(self) -> None:
        """Forget the network."""
        self._network = None
