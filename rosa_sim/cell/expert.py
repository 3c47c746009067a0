"""A scripted expert with privileged state: where the tool should go next, from any state, so it can label any state.

It puts the block of one colour into one bin. `expert_chunk` rolls a memoryless rule forward in a simplified cell (the
tool goes where it is sent, the gripper moves at its speed, a gripped block follows). Being memoryless, it also corrects
what noise or a learned policy did, and puts down a block that it holds by mistake.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.panda.kinematics import forward
from rosa_sim.cell.layout.hardware import GRIPPER_SPEED_M_S, panda
from rosa_sim.cell.world import World

STEP_S = 0.05
HORIZON = 16
Vector = NDArray[np.float64]

_SPEED_M_S = 0.40
_SLOW_M_S = 0.20  # below the hover height
HOVER_Z = 0.13
_TRAVEL_Z = 0.17
_DROP_Z = 0.085
GRASP_Z = 0.018
OPEN = 0.08
CLOSED = 0.0
_LET_GO_M = 0.059  # the fingers are off a block of 0.04 m


def home_position() -> Vector:
    """The tool at the home pose `(3,)`, m."""
    return forward(panda().home_rad)[0]


@dataclass
class ExpertCell:
    """The simplified cell that the rule reads and that a chunk rolls forward. Lengths in m."""

    tool: Vector  # (3,)
    width: float  # of the gripper
    cube: Vector  # (3,) the block of the task
    drop_xy: Vector  # (2,) where to let go of it
    half: float  # of a block's edge
    in_bin: bool  # the block is where it shall be
    lost: bool  # the block is where the task does not reach it
    other: Vector | None  # (3,) a block that the gripper may hold by mistake
    mat: tuple[Vector, Vector]  # two corners (2,) of the part of the mat where that one may be put down

    @property
    def at_cube(self) -> bool:
        """The block is between the fingertips."""
        return self._around(self.cube)

    @property
    def held(self) -> bool:
        """The fingers are on the block."""
        return self.at_cube and 0.026 < self.width < 2 * self.half + 0.019

    @property
    def holds_other(self) -> bool:
        """The fingers are on a block that is not the task's."""
        return self.other is not None and 0.026 < self.width < _LET_GO_M and self._around(self.other)

    def _around(self, block: Vector) -> bool:
        off = self.tool - block
        return bool(np.linalg.norm(off[:2]) < 0.022 and abs(off[2]) < 0.025)

    def rule(self) -> tuple[Vector, float]:
        """The next tool target `(3,)` (not yet limited in speed) and gripper width."""
        if self.holds_other:
            ground = np.array([*np.clip(self.tool[:2], *self.mat), GRASP_Z + 0.004])
            if np.abs(self.tool - ground).max() < 0.012:
                return self.tool.copy(), OPEN
            return self.over(ground, HOVER_Z, narrow=0.01, wide=0.05), CLOSED
        above_bin = np.array([*self.drop_xy, _DROP_Z])
        off_bin = float(np.abs(self.tool - above_bin)[:2].max())
        if self.held and not (self.in_bin and self.width > 2 * self.half + 0.006):
            if off_bin < 0.02 and self.tool[2] < _DROP_Z + 0.02:
                return above_bin, OPEN
            return self.over(above_bin, _TRAVEL_Z, narrow=0.03, wide=0.10), CLOSED
        if self.in_bin or (self.lost and not self.held):
            home = home_position()
            rising = off_bin < 0.09 and self.tool[2] < _TRAVEL_Z - 0.02
            if rising and self.width < 0.065 and self.tool[2] < _DROP_Z + 0.04:
                return self.tool.copy(), OPEN  # let go before rising
            return (np.array([*self.tool[:2], _TRAVEL_Z + 0.05]) if rising else home), OPEN
        grasp = np.array([*self.cube[:2], max(GRASP_Z, self.cube[2] - 0.002)])
        off = float(np.linalg.norm((self.tool - grasp)[:2]))
        if off < 0.010 and abs(self.tool[2] - grasp[2]) < 0.010 and self.width > 0.03:
            return grasp, CLOSED
        if self.width < 0.07 and self.tool[2] < HOVER_Z - 0.03 and off < 0.07:
            return np.array([*self.tool[:2], HOVER_Z]), OPEN  # a miss: back up before trying again
        return self.over(grasp, HOVER_Z, narrow=0.008, wide=0.05), OPEN

    def advance(self) -> tuple[Vector, float]:
        """One 50 ms step of the simplified cell; returns the setpoint `(3,)` and the gripper width sent."""
        goal, width = self.rule()
        held, holds_other = self.held, self.holds_other
        low = min(self.tool[2], goal[2]) < 0.10 and np.linalg.norm((goal - self.tool)[:2]) < 0.06
        reach = (_SLOW_M_S if low else _SPEED_M_S) * STEP_S
        delta = goal - self.tool
        distance = float(np.linalg.norm(delta))
        self.tool = goal.copy() if distance <= reach else self.tool + delta * (reach / distance)
        floor = 2 * self.half if self.at_cube or held else 0.0
        move = GRIPPER_SPEED_M_S * STEP_S
        self.width = max(min(self.width + float(np.clip(width - self.width, -move, move)), OPEN), floor)
        if held and self.width < 2 * self.half + 0.004:
            self.cube = self.tool.copy()
        elif held and np.abs(self.cube[:2] - self.drop_xy).max() < 0.075:
            self.cube = np.array([*self.cube[:2], self.half])
            self.in_bin = True
        if holds_other:
            self.width = max(self.width, 2 * self.half)
            self.other = self.tool.copy() if self.width < _LET_GO_M else None
        return self.tool.copy(), width

    def over(self, goal: Vector, height: float, narrow: float, wide: float) -> Vector:
        """A funnel: at `height` while farther than `wide`, at the goal's height within `narrow`."""
        off = float(np.linalg.norm((self.tool - goal)[:2]))
        share = float(np.clip((off - narrow) / (wide - narrow), 0.0, 1.0))
        z = goal[2] + share * (height - goal[2])
        if self.tool[2] < z - 0.02:  # rise first
            toward = 0.3 * (goal[:2] - self.tool[:2]) * float(self.tool[2] > 0.06)
            return np.array([*(self.tool[:2] + toward), z])
        return np.array([*goal[:2], z])


def expert_chunk(world: World, colour: int = 0, bin_id: int = 0) -> NDArray[np.float32]:
    """The expert's next `(16, 4)` steps of "put the block of `colour` into the bin `bin_id`": tool m, gripper width m.

    When the block is there, or out of reach (in another bin, off the mat), the arm goes home.
    """
    block, bins, c = world.block(colour), world.layout.bin_names, world.layout
    here = block.place == bins[bin_id]
    margin = np.array([0.04, 0.04])
    model = ExpertCell(
        tool=world.tool_position,
        width=world.gripper_width,
        cube=block.position,
        drop_xy=world.bin_positions[bin_id] if here else free_place(world, bin_id),
        half=float(c.blocks["half_size"]),
        in_bin=here,
        lost=block.place in (*bins, "lost") and not here,
        other=next(
            (one.position for one in world.blocks if one.colour != colour and one.place == "hand"), None
        ),
        mat=(
            np.array([c.mat[axis][0] for axis in "xy"]) + margin,
            np.array([c.mat[axis][1] for axis in "xy"]) - margin,
        ),
    )
    steps = [model.advance() for _ in range(HORIZON)]
    return np.array([[*tool, width] for tool, width in steps], dtype=np.float32)


def free_place(world: World, bin_id: int) -> Vector:
    """Where in the bin to let go `(2,)` m: the first of its places that is free, else the one with the most room."""
    c = world.layout.places
    places = [world.bin_positions[bin_id] + np.array([offset, 0.0]) for offset in c["offset_x"]]
    side = world.layout.bin_names[bin_id]
    taken = [block.position[:2] for block in world.blocks if block.place == side]
    room = [min((float(np.linalg.norm(place - xy)) for xy in taken), default=np.inf) for place in places]
    free = [place for place, clear in zip(places, room, strict=True) if clear > c["free_m"]]
    return np.asarray(free[0] if free else places[int(np.argmax(room))])
