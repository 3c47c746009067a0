"""The pick-and-place cell and the ground truth of its task."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_sim.cell.arm import ArmInCell
from rosa_sim.cell.layout.hardware import PICK_PLACE, cell
from rosa_sim.cell.layout.variation import Variation

Outcome = Literal["ongoing", "done", "failed"]
Vector = NDArray[np.float64]


class World(ArmInCell):
    """The pick-and-place cell: an arm, and the ground truth of the task."""

    variation: Variation

    def __init__(self, seed: int = 0) -> None:
        super().__init__(PICK_PLACE, seed)
        self._cube_at = int(self.model.joint("cube").qposadr[0])
        self._cube_speed_at = int(self.model.joint("cube").dofadr[0])

    # Ground truth, for the expert and for the outcome; the policy never sees it.

    @property
    def cube_position(self) -> Vector:
        """`(3,)`, m."""
        return np.array(self.data.qpos[self._cube_at : self._cube_at + 3])

    @property
    def bin_position(self) -> Vector:
        """`(2,)`, m."""
        return self.variation.bin_xy

    @property
    def cube_in_bin(self) -> bool:
        """Whether the cube is inside the bin's walls and below their rim."""
        offset = np.abs(self.cube_position[:2] - self.bin_position).max()
        return bool(
            offset < cell()["bin"]["inner_half_size"] and self.cube_position[2] < cell()["bin"]["height"]
        )

    @property
    def cube_lost(self) -> bool:
        """Whether the cube is off the mat or the table, where the task does not reach it (in the bin is not lost)."""
        c = cell()["mat"]
        x, y, z = self.cube_position
        margin = c["lost_margin"]
        on_mat = c["x"][0] - margin < x < c["x"][1] + margin and c["y"][0] - margin < y < c["y"][1] + margin
        return bool(z < -0.02 or (not on_mat and not self.cube_in_bin))

    def push_cube(self, by_m: ArrayLike) -> None:
        """Something bumps into the cube: it moves by `(2,)` m, or the other way where it would leave the mat."""
        mat, by = cell()["mat"], np.asarray(by_m, dtype=np.float64)
        here = self.cube_position[:2]
        for axis, name in enumerate("xy"):
            if not mat[name][0] < here[axis] + by[axis] < mat[name][1]:
                by[axis] = -by[axis]
        self.data.qpos[self._cube_at : self._cube_at + 2] = here + by

    def outcome(self) -> Outcome:
        """done: the cube rests in the bin and the gripper has let go and moved away.

        failed: it fell off the table, or came to rest outside mat and bin (dropped short, knocked away).
        """
        limit = cell()["outcome"]
        if self.cube_position[2] < -0.02:
            return "failed"
        still = (
            float(np.linalg.norm(self.data.qvel[self._cube_speed_at : self._cube_speed_at + 3]))
            < limit["still_m_s"]
        )
        away = float(np.linalg.norm(self.tool_position - self.cube_position))
        if not still:
            return "ongoing"
        if self.cube_in_bin and self.gripper_width > limit["open_width_m"] and away > limit["away_m"]:
            return "done"
        if self.cube_lost and away > limit["held_m"]:
            return "failed"
        return "ongoing"
