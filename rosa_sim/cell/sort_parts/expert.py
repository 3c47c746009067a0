"""The scripted expert of the sorting cell: puts the block of one colour into one bin, from any state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rosa_sim.cell.expert import CLOSED, GRASP_Z, HOVER_Z, OPEN, ExpertCell, roll_forward
from rosa_sim.cell.layout.hardware import SORT_PARTS, cell
from rosa_sim.cell.sort_parts.world import SortWorld

Vector = NDArray[np.float64]
_LET_GO_M = 0.059  # the fingers are off a block of 0.04 m


@dataclass
class SortCell(ExpertCell):
    """The simplified cell with, besides the block of the subtask, one that the gripper may hold by mistake."""

    other: Vector | None  # (3,) m

    def rule(self) -> tuple[Vector, float]:
        if not self._holds_other:
            return super().rule()
        assert self.other is not None
        mat = cell(SORT_PARTS)["mat"]
        low, high = (np.array([mat["x"][i], mat["y"][i]]) + (0.04, -0.04)[i] for i in (0, 1))
        ground = np.array([*np.clip(self.tool[:2], low, high), GRASP_Z + 0.004])
        if np.abs(self.tool - ground).max() < 0.012:
            return self.tool.copy(), OPEN
        return self.over(ground, HOVER_Z, narrow=0.01, wide=0.05), CLOSED

    def advance(self) -> tuple[Vector, float]:
        holds_other, low = self._holds_other, 2 * self.half
        tool, width = super().advance()
        if holds_other:
            self.width = max(self.width, low)
            self.other = self.tool.copy() if self.width < _LET_GO_M else None
        return tool, width

    @property
    def _holds_other(self) -> bool:
        if self.other is None or not 0.026 < self.width < _LET_GO_M:
            return False
        off = self.tool - self.other
        return bool(np.linalg.norm(off[:2]) < 0.022 and abs(off[2]) < 0.025)


def subtask_chunk(world: SortWorld, colour: int, bin_id: int) -> NDArray[np.float32]:
    """The expert's next `(16, 4)` steps of "put the block of `colour` into the bin `bin_id`": tool m, gripper m.

    When the block is there, or out of reach (in the other bin, off the mat), the arm goes home.
    """
    block = world.block(colour)
    here = block.place == ("left", "right")[bin_id]
    elsewhere = block.place in ("left", "right", "lost") and not here
    centre = world.bin_positions[bin_id]
    others = [one for one in world.blocks if one.colour != colour]
    return roll_forward(
        SortCell(
            tool=world.tool_position,
            width=world.gripper_width,
            cube=block.position,
            drop_xy=centre if here else free_place(world, bin_id),
            half=float(cell(SORT_PARTS)["blocks"]["half_size"]),
            in_bin=here,
            lost=elsewhere,
            other=next((one.position for one in others if one.place == "hand"), None),
        )
    )


def free_place(world: SortWorld, bin_id: int) -> Vector:
    """Where in the bin to let go `(2,)` m: the first of its places that is free, else the one with the most room."""
    c = cell(SORT_PARTS)["places"]
    places = [world.bin_positions[bin_id] + np.array([offset, 0.0]) for offset in c["offset_x"]]
    taken = [block.position[:2] for block in world.blocks if block.place == ("left", "right")[bin_id]]
    room = [min((float(np.linalg.norm(place - xy)) for xy in taken), default=np.inf) for place in places]
    free = [place for place, clear in zip(places, room, strict=True) if clear > c["free_m"]]
    return np.asarray(free[0] if free else places[int(np.argmax(room))])
