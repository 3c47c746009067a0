"""Pictures on their way into the network: LeRobot's normalisation, and changes that teach it what does not matter."""

from __future__ import annotations

import numpy as np
import torch
from lerobot.datasets.factory import IMAGENET_STATS
from numpy.typing import NDArray
from torch import Tensor

from rosa_sim.training.data.pictures import shifted

MEAN, STD = (torch.tensor(IMAGENET_STATS[name]) for name in ("mean", "std"))
SHIFT = 1  # px


def to_network(images: NDArray[np.uint8]) -> Tensor:
    """`(n, h, w, 3)` bytes -> `(n, 3, h, w)`, as LeRobot's preprocessor makes them."""
    pictures = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    return (pictures.float() / 255 - MEAN) / STD


def augmented(images: NDArray[np.uint8], rng: np.random.Generator) -> Tensor:
    """The same, each picture shifted, brighter or darker, tinted, and with noise."""
    n = len(images)
    gain = rng.uniform(0.8, 1.2, (n, 1, 1, 1)) * rng.uniform(0.95, 1.05, (n, 3, 1, 1))
    offset = rng.uniform(-0.2, 0.2, (n, 1, 1, 1))
    grain = _GRAIN[torch.from_numpy(rng.integers(0, len(_GRAIN), n))]
    return (
        to_network(shifted(images, rng, SHIFT)[0]) * torch.from_numpy(gain).float()
        + torch.from_numpy(offset).float()
        + grain
    )


# Drawn once: new noise for every batch is slow.
_GRAIN = 0.04 * torch.randn(32, 3, 96, 96, generator=torch.Generator().manual_seed(0))
