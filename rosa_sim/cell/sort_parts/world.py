"""The sorting cell and the ground truth of its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_sim.cell.arm import ArmInCell
from rosa_sim.cell.layout.hardware import SORT_PARTS, cell
from rosa_sim.cell.layout.sort_names import BLOCKS
from rosa_sim.cell.layout.sort_variation import SortVariation
from rosa_sim.cell.world import Outcome

Vector = NDArray[np.float64]
Place = Literal["mat", "hand", "left", "right", "lost"]


@dataclass(frozen=True)
class Block:
    """A block as it is now: the id of its colour, where it is, and the name of that place."""

    colour: int
    position: Vector  # (3,) m
    place: Place  # "hand": lifted by the gripper


class SortWorld(ArmInCell):
    """The sorting cell of a seed. With `visits`, a hand comes in at the time that the seed says."""

    variation: SortVariation

    def __init__(self, seed: int = 0, visits: bool = False) -> None:
        self._visits = visits
        super().__init__(SORT_PARTS, seed)

    def step(self, q_target_rad: ArrayLike, gripper_width_m: float, duration_s: float) -> None:
        if self._visits:
            self.place_hand(self.variation.hand.at(float(self.data.time)))
        super().step(q_target_rad, gripper_width_m, duration_s)

    def place_hand(self, position: Vector | None) -> None:
        """Put the tip of the middle finger at `position` `(3,)` m, or take the hand away."""
        at, speed_at = self._hand_at
        self.data.qpos[at : at + 3] = cell(SORT_PARTS)["hand"]["parked"] if position is None else position
        self.data.qvel[speed_at : speed_at + 3] = 0.0

    @property
    def _hand_at(self) -> tuple[int, int]:
        joint = self.model.joint("hand_x")
        return int(joint.qposadr[0]), int(joint.dofadr[0])

    # Ground truth, for the expert and for the outcome; the policy never sees it.

    @property
    def hand_position(self) -> Vector | None:
        """The tip of the middle finger `(3,)` m, None while no hand is near."""
        position = np.array(self.data.qpos[self._hand_at[0] : self._hand_at[0] + 3])
        return None if np.array_equal(position, cell(SORT_PARTS)["hand"]["parked"]) else position

    @property
    def safe(self) -> bool:
        """No hand is in the workcell."""
        position, zone = self.hand_position, cell(SORT_PARTS)["workcell"]
        if position is None:
            return True
        return not all(
            zone[axis][0] < value < zone[axis][1] for axis, value in zip("xyz", position, strict=True)
        )

    @property
    def bin_positions(self) -> Vector:
        """`(2, 2)`, left and right, m."""
        return self.variation.bin_xy

    @property
    def block_positions(self) -> Vector:
        """`(3, 3)`, m."""
        at = [int(self.model.joint(name).qposadr[0]) for name in BLOCKS]
        return np.stack([self.data.qpos[i : i + 3] for i in at])

    @property
    def blocks(self) -> list[Block]:
        """All three, in the order of the model."""
        return [
            Block(int(colour), position, self._place_of(position))
            for colour, position in zip(self.variation.block_colour, self.block_positions, strict=True)
        ]

    def block(self, colour: int) -> Block:
        """The block of that colour. Raises `ValueError` when the cell has none."""
        for block in self.blocks:
            if block.colour == colour:
                return block
        raise ValueError(f"no block of colour {colour} in this cell: it has {self.variation.block_colour}")

    def bin_of(self, position: Vector) -> int:
        """The bin inside whose walls a block at `position` `(3,)` lies: 0 left, 1 right, -1 neither."""
        c = cell(SORT_PARTS)
        half = np.array([c["bins"]["inner_half_x"], c["bins"]["inner_half_y"]])
        for number, xy in enumerate(self.bin_positions):
            if (np.abs(position[:2] - xy) < half).all() and -0.02 < position[2] < c["places"]["heap_z"]:
                return number
        return -1

    def _place_of(self, position: Vector) -> Place:
        if position[2] < -0.02:
            return "lost"
        c = cell(SORT_PARTS)
        near = float(np.linalg.norm(position - self.tool_position)) < 0.03
        if near and self.gripper_width < 0.06 and position[2] > c["blocks"]["half_size"] + 0.01:
            return "hand"
        number = self.bin_of(position)
        if number >= 0:
            return "left" if number == 0 else "right"
        margin = c["mat"]["lost_margin"]
        (x0, x1), (y0, y1) = c["mat"]["x"], c["mat"]["y"]
        x, y = position[:2]
        on_mat = x0 - margin < x < x1 + margin and y0 - margin < y < y1 + margin
        return "mat" if on_mat else "lost"

    def outcome(self, colour: int, bin_id: int) -> Outcome:
        """How "put the block of `colour` into the bin `bin_id`" stands.

        done: it rests in that bin and the gripper has let go and moved away. failed: it fell off the table, or came
        to rest in the other bin or outside mat and bins.
        """
        limit = cell(SORT_PARTS)["outcome"]
        number = [block.colour for block in self.blocks].index(self.block(colour).colour)
        position = self.block_positions[number]
        if position[2] < -0.02:
            return "failed"
        speed_at = int(self.model.joint(BLOCKS[number]).dofadr[0])
        if float(np.linalg.norm(self.data.qvel[speed_at : speed_at + 3])) >= limit["still_m_s"]:
            return "ongoing"
        away = float(np.linalg.norm(self.tool_position - position))
        place = self._place_of(position)
        let_go = away > limit["far_m"] or (
            away > limit["away_m"] and self.gripper_width > limit["open_width_m"]
        )
        if place in ("left", "right") and let_go:
            return "done" if place == ("left", "right")[bin_id] else "failed"
        if place == "lost" and away > limit["held_m"]:
            return "failed"
        return "ongoing"

    def by_rule(self, rule: int) -> Outcome:
        """How a whole sort stands by `rule`: bit `colour` set for left, clear for right.

        done: every block rests in its bin and is let go. failed: none is left to move, and one is in the wrong bin or
        lost.
        """
        if any(block.place in ("mat", "hand") for block in self.blocks):
            return "ongoing"
        outcomes = {self.outcome(block.colour, 0 if rule >> block.colour & 1 else 1) for block in self.blocks}
        return "ongoing" if "ongoing" in outcomes else "failed" if "failed" in outcomes else "done"

    def sorted_by(self, rule: int) -> bool:
        """Whether every block rests in the bin that `rule` names."""
        return self.by_rule(rule) == "done"
