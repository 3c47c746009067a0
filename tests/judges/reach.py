"""A model that moves straight to the joints that its prompt names."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rosa_server.models.backend import Capabilities, InputSpec, ModelInput, ModelOutput, check_batch

SIDE, ROWS = 64, 15
STEP_RAD = 0.02
LATENCY_S = 0.1
CLOSED_M, OPEN_M = 0.0, 0.08


def chunk(prompt: str, joints: Any, width_m: Any) -> Any:
    """Rows (15, 8): absolute joints in rad, and the gripper as it is in m."""
    goal, here = np.asarray([float(word) for word in prompt.split()]), np.asarray(joints, np.float64)
    rows = []
    for _ in range(ROWS):
        here = here + np.clip(goal - here, -STEP_RAD, STEP_RAD)
        rows.append(np.concatenate([here, width_m]))
    return np.asarray(rows)


class ReachBackend:
    """`chunk` as a backend."""

    def __init__(self) -> None:
        self.input_spec = InputSpec(
            {"front": (SIDE, SIDE), "wrist": (SIDE, SIDE)}, {"joint_position": 7, "gripper_width": 1}
        )
        self.capabilities = Capabilities()
        self.max_batch, self.memory_mb = 16, 0.0

    def load(self) -> None:
        """Nothing to do."""

    def warm_up(self) -> None:
        """Nothing to do."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        check_batch(self.input_spec, batch, self.max_batch)
        time.sleep(LATENCY_S)
        rows = [chunk(one.prompt, one.state["joint_position"], one.state["gripper_width"]) for one in batch]
        return [ModelOutput({"actions": one.astype(np.float32)}) for one in rows]

    def close(self) -> None:
        """Nothing to do."""
