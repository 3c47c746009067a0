"""The picture encoder that the policy and the monitor share in kind (not in weights), and how weights are stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rosa_server.models.panda.spatial_softmax import spatial_softmax
from rosa_server.models.registry import BackendError

IMAGE_SIZE = 96
WEIGHTS_DIR = Path(__file__).parents[1] / "weights"


class Encoder(nn.Module):
    """`(n, 3, 96, 96)` in -1..1 -> `(n, 3 * channels)`: where each feature is (spatial softmax) and how strong."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, 16, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.GroupNorm(4, 32),
            nn.ReLU(),
            nn.Conv2d(32, 48, 3, padding=1),
            nn.GroupNorm(4, 48),
            nn.ReLU(),
            nn.Conv2d(48, channels, 3, padding=1),
        )
        self.features = 3 * channels

    def forward(self, images: Tensor) -> Tensor:
        # How vivid a pixel is, as a fourth channel: colour may be any, so the layers would have to learn it for each.
        vivid = images.amax(dim=1, keepdim=True) - images.amin(dim=1, keepdim=True)
        maps = self.layers(torch.cat([images, vivid], dim=1))  # (n, channels, 24, 24)
        x, y, peak = spatial_softmax(maps)
        return torch.cat([x, y, torch.tanh(0.25 * peak)], dim=-1)


def to_tensor(images: NDArray[np.uint8]) -> Tensor:
    """`(n, h, w, 3)` RGB bytes -> `(n, 3, h, w)` float in -1..1."""
    # Channels first in memory: channels last trained at half the speed on a CPU.
    pictures = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    return pictures.float().mul_(1 / 127.5).sub_(1.0)


def save_weights(network: nn.Module, path: Path, metadata: dict[str, str]) -> None:
    """float16 safetensors: half the size, and the rounding is far below the training noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().half().contiguous() for name, value in network.state_dict().items()}
    save_file(tensors, str(path), metadata=metadata)


def load_weights(network: nn.Module, path: Path) -> None:
    """Fill `network` from safetensors; raises with the remedy when the file is missing or does not fit."""
    if not path.is_file():
        raise FileNotFoundError(
            f"weights {path} are missing: use the shipped ones or make them with `make train`"
        )
    try:
        tensors = {name: value.float() for name, value in load_file(str(path)).items()}
        network.load_state_dict(tensors)
        if wrong := next((name for name, value in tensors.items() if not value.isfinite().all()), ""):
            raise RuntimeError(
                f"tensor {wrong} has values that are not finite"
            )  # the likeliest of NaN is a token
    except (SafetensorError, RuntimeError) as error:
        raise BackendError(
            "bad_weights", f"weights {path} do not fit {type(network).__name__}: {error}"
        ) from error
