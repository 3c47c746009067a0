"""Inpainting: a flow model's next chunk begins as the guide says, and goes on from there as the model knows.

Pseudo-inverse guidance of the velocity field at inference time, without training (Black et al., Real-Time Execution of
Action Chunking Flow Policies, 2025, equations 2 to 4). For any network with a velocity field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

GUIDANCE = 5.0  # beta of equation 2: the most by which the field is bent


@dataclass(frozen=True)
class Guide:
    """What chunks in the network's space shall begin as: `target` and `weights`, `(n, values)`; weight 0: free."""

    target: Tensor
    weights: Tensor


def guided(field: Callable[[Tensor, Tensor], Tensor], chunk: Tensor, time: Tensor, guide: Guide) -> Tensor:
    """The velocity field at `chunk` `(n, values)` and `time` `(n,)`, bent so that the chunk ends near the target.

    Equations 2 to 4: the field would end at A1 = chunk + (1 - time) field; the weighted error of A1 is pulled back
    through it.
    """
    with torch.enable_grad():
        here = chunk.detach().requires_grad_(True)
        velocity = field(here, time)
        ends = here + (1 - time)[:, None] * velocity
        error = (guide.target - ends.detach()) * guide.weights
        (pull,) = torch.autograd.grad(ends, here, error)
    left = 1 - time[:, None]
    spread = left**2 / (time[:, None] ** 2 + left**2)
    strength = torch.clamp(left / torch.clamp(time[:, None] * spread, min=1e-9), max=GUIDANCE)
    return velocity.detach() + strength * pull
