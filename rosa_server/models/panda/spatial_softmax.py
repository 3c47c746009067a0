"""Where a feature is in a picture: the mean place of its map under a softmax. Needs only torch, as the networks do."""

from __future__ import annotations

import torch
from torch import Tensor


def spatial_softmax(maps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where each feature of `(n, channels, size, size)` is, x and y in -1..1, and its peak; `(n, channels)` each."""
    size = maps.shape[-1]
    flat = maps.flatten(2)
    share = torch.softmax(flat, dim=-1).unflatten(-1, (size, size))
    ways = torch.linspace(-1.0, 1.0, size, device=maps.device, dtype=maps.dtype)
    x = (share.sum(dim=2) * ways).sum(dim=-1)
    y = (share.sum(dim=3) * ways).sum(dim=-1)
    return x, y, flat.amax(dim=-1)
