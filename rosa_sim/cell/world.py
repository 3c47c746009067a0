"""A cell with blocks and bins, and the ground truth of its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_sim.cell.arm import ArmInCell
from rosa_sim.cell.layout.hardware import PICK_PLACE

Outcome = Literal["ongoing", "done", "failed"]
Place = Literal["mat", "hand", "left", "right", "lost"]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """A block as it is now: the id of its colour, where it is, and the name of that place."""

    colour: int
    position: Vector  # (3,) m
    place: Place  # "hand": lifted by the gripper


class World(ArmInCell):
    """The cell of a seed. With `visits`, a hand comes in at the time that the seed says, where the layout has one."""

    def __init__(self, seed: int = 0, scene: str = PICK_PLACE, visits: bool = False) -> None:
        self._visits = visits
        super().__init__(scene, seed)

    def step(self, q_target_rad: ArrayLike, gripper_width_m: float, duration_s: float) -> None:
        if self._visits and self.variation.hand is not None:
            self.place_hand(self.variation.hand.at(float(self.data.time)))
        super().step(q_target_rad, gripper_width_m, duration_s)

    def place_hand(self, position: Vector | None) -> None:
        """Put the tip of the middle finger at `position` `(3,)` m, or take the hand away."""
        at, speed_at = self._addresses("hand_x")
        self.data.qpos[at : at + 3] = self._parked if position is None else position
        self.data.qvel[speed_at : speed_at + 3] = 0.0

    def place_block(self, number: int, position: ArrayLike) -> None:
        """Put a block at `position` `(3,)` m, at rest and turned as it was at first."""
        at, speed_at = self._addresses(self.layout.block_names[number])
        yaw = self.variation.block_yaw[number]
        self.data.qpos[at : at + 3] = position
        self.data.qpos[at + 3 : at + 7] = [np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]
        self.data.qvel[speed_at : speed_at + 6] = 0.0

    def strike_block(self, number: int, speed_m_s: ArrayLike) -> None:
        """Something hits a block: it slides at this speed `(2,)`."""
        _, speed_at = self._addresses(self.layout.block_names[number])
        self.data.qvel[speed_at : speed_at + 2] = speed_m_s

    def push_block(self, by_m: ArrayLike) -> None:
        """Something bumps into the first block: it moves by `(2,)` m, or the other way where it would leave the mat."""
        mat, by = self.layout.mat, np.asarray(by_m, dtype=np.float64)
        here = self.block_positions[0, :2]
        for axis, name in enumerate("xy"):
            if not mat[name][0] < here[axis] + by[axis] < mat[name][1]:
                by[axis] = -by[axis]
        at, _ = self._addresses(self.layout.block_names[0])
        self.data.qpos[at : at + 2] = here + by

    def _addresses(self, joint: str) -> tuple[int, int]:
        """Where its position begins in qpos, and its speed in qvel."""
        found = self.model.joint(joint)
        return int(found.qposadr[0]), int(found.dofadr[0])

    @property
    def _parked(self) -> Vector:
        assert self.layout.hand is not None, "this cell has no hand"
        return np.array(self.layout.hand["parked"])

    # Ground truth, for the expert and for the outcome; the policy never sees it.

    @property
    def hand_position(self) -> Vector | None:
        """The tip of the middle finger `(3,)` m, None while no hand is near."""
        if self.layout.hand is None:
            return None
        at, _ = self._addresses("hand_x")
        position = np.array(self.data.qpos[at : at + 3])
        return None if np.array_equal(position, self._parked) else position

    @property
    def safe(self) -> bool:
        """No hand is in the workcell."""
        position, zone = self.hand_position, self.layout.workcell
        if position is None or zone is None:
            return True
        return not all(
            zone[axis][0] < value < zone[axis][1] for axis, value in zip("xyz", position, strict=True)
        )

    @property
    def bin_positions(self) -> Vector:
        """`(bins, 2)`, m."""
        return self.variation.bin_xy

    @property
    def block_positions(self) -> Vector:
        """`(blocks, 3)`, m."""
        at = [self._addresses(name)[0] for name in self.layout.block_names]
        return np.stack([self.data.qpos[i : i + 3] for i in at])

    @property
    def blocks(self) -> list[Block]:
        """All, in the order of the model."""
        return [
            Block(int(colour), position, self._place_of(position))
            for colour, position in zip(self.variation.block_colour, self.block_positions, strict=True)
        ]

    def number_of(self, colour: int) -> int:
        """Which block has that colour. Raises `ValueError` when none has."""
        found = np.flatnonzero(self.variation.block_colour == colour)
        if not len(found):
            raise ValueError(
                f"no block of colour {colour} in this cell: it has {self.variation.block_colour}"
            )
        return int(found[0])

    def block(self, colour: int) -> Block:
        """The block of that colour. Raises `ValueError` when the cell has none."""
        return self.blocks[self.number_of(colour)]

    def bin_of(self, position: Vector) -> int:
        """The bin inside whose walls a block at `position` `(3,)` lies, held or not: its id, -1 for none."""
        half, heap_z = np.array(self.layout.bins["inner_half"]), self.layout.places["heap_z"]
        for number, xy in enumerate(self.bin_positions):
            if (np.abs(position[:2] - xy) < half).all() and -0.02 < position[2] < heap_z:
                return number
        return -1

    def _place_of(self, position: Vector) -> Place:
        if position[2] < -0.02:
            return "lost"
        near = float(np.linalg.norm(position - self.tool_position)) < 0.03
        if near and self.gripper_width < 0.06 and position[2] > self.layout.blocks["half_size"] + 0.01:
            return "hand"
        number = self.bin_of(position)
        if number >= 0:
            return "left" if self.layout.bin_names[number] == "left" else "right"
        return "mat" if self.layout.on_mat(position[:2], self.layout.mat["lost_margin"]) else "lost"

    def block_outcome(self, colour: int, bin_id: int) -> Outcome:
        """How "put the block of `colour` into the bin `bin_id`" stands.

        done: it rests in that bin and the gripper has let go and moved away. failed: it fell off the table, or came
        to rest in another bin or outside mat and bins (dropped short, knocked away).
        """
        limit, number = self.layout.outcome, self.number_of(colour)
        position = self.block_positions[number]
        if position[2] < -0.02:
            return "failed"
        _, speed_at = self._addresses(self.layout.block_names[number])
        if float(np.linalg.norm(self.data.qvel[speed_at : speed_at + 3])) >= limit["still_m_s"]:
            return "ongoing"
        away = float(np.linalg.norm(self.tool_position - position))
        place = self._place_of(position)
        let_go = away > limit["far_m"] or (
            away > limit["away_m"] and self.gripper_width > limit["open_width_m"]
        )
        if place in self.layout.bin_names and let_go:
            return "done" if place == self.layout.bin_names[bin_id] else "failed"
        if place == "lost" and away > limit["held_m"]:
            return "failed"
        return "ongoing"

    def outcome(self) -> Outcome:
        """How the cell stands by itself: every block belongs into a bin, whichever."""
        return self._of_all([max(0, self.bin_of(position)) for position in self.block_positions])

    def by_rule(self, rule: int) -> Outcome:
        """How a whole sort stands by `rule`: bit `colour` set for the first bin, clear for the second.

        done: every block rests in its bin and is let go. failed: none is left to move, and one is in the wrong bin or
        lost.
        """
        return self._of_all([0 if rule >> int(colour) & 1 else 1 for colour in self.variation.block_colour])

    def _of_all(self, bin_ids: Sequence[int]) -> Outcome:
        """`bin_ids`: where each block belongs."""
        blocks = self.blocks
        if any(block.place in ("mat", "hand") for block in blocks):
            return "ongoing"
        outcomes = {
            self.block_outcome(block.colour, bin_id) for block, bin_id in zip(blocks, bin_ids, strict=True)
        }
        return "ongoing" if "ongoing" in outcomes else "failed" if "failed" in outcomes else "done"

    def sorted_by(self, rule: int) -> bool:
        """Whether every block rests in the bin that `rule` names."""
        return self.by_rule(rule) == "done"
