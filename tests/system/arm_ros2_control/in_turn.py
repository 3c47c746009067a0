"""A model of two arms: it closes the left gripper, then the right one, opens the left one again, and says done.

Its columns are in an order of its own, a gripper after each arm's joints; meanwhile it turns both last wrists, apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput, check_batch

ROWS = 8
HALF_OPEN_M = 0.04
WRISTS_RAD = {5: 0.2, 11: -0.2}  # joint -> where to
STEP_RAD = 0.1  # of a chunk
# Whether the grippers are open (left, right), as seen -> as they are told to be.
NEXT = {
    (True, True): (False, True),
    (False, True): (False, False),
    (False, False): (True, False),
    (True, False): (True, False),
}
DONE = (True, False)


class InTurn:
    """See the module."""

    def __init__(self) -> None:
        self.input_spec = InputSpec({"front": (96, 96)}, {"joint_position": 12, "gripper_width": 2})
        self.max_batch = 1
        self.memory_mb = 0.0

    def load(self) -> None:
        pass

    def warm_up(self) -> None:
        pass

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        check_batch(self.input_spec, batch, self.max_batch)
        return [self._answer(one) for one in batch]

    def _answer(self, one: ModelInput) -> ModelOutput:
        left_m, right_m = one.state["gripper_width"]
        seen = bool(left_m > HALF_OPEN_M), bool(right_m > HALF_OPEN_M)
        if one.component == "monitor":
            return ModelOutput(verdict="done" if seen == DONE else "ongoing")
        rows = np.tile(one.state["joint_position"].astype(np.float32), (ROWS, 1))
        for joint, to_rad in WRISTS_RAD.items():
            by_rad = np.clip(to_rad - rows[0, joint], -STEP_RAD, STEP_RAD)
            rows[:, joint] += np.linspace(by_rad / ROWS, by_rad, ROWS, dtype=np.float32)
        widths = np.tile(np.array(NEXT[seen], np.float32), (ROWS, 1))
        action = np.hstack([rows[:, :6], widths[:, :1], rows[:, 6:], widths[:, 1:]])
        return ModelOutput(arrays={"action": action})

    def close(self) -> None:
        pass
