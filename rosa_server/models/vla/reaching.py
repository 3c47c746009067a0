"""From what the action expert answers to what a robot plays: inverse kinematics of all calls of a turn together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rosa_server.models.panda.flow_policy import from_network
from rosa_server.models.panda.kinematics import inverse_path


def joints_of(
    chunks: Tensor, tool_m: NDArray[np.float64], q_rad: NDArray[np.floating]
) -> NDArray[np.float32]:
    """Chunks `(n, H, A)`, where each tool is `(n, 3)` and its joints `(n, 7)` -> joints and gripper `(n, H, 8)`.

    Each step of a chunk starts from the joints of the one before it. Many chunks take little longer than one.
    """
    path = from_network(chunks.cpu().numpy(), tool_m)
    joints = inverse_path(path[..., :3], q_rad)
    return np.concatenate([joints, path[..., 3:]], axis=-1).astype(np.float32)
