"""A scripted expert with privileged state: where the tool should go next, from any state, so it can label any state.

`ExpertPlan.of(...)` rolls a memoryless rule forward in a simplified cell (the tool goes where it is sent, the gripper
moves at its speed, a gripped cube follows). Being memoryless, it also corrects what noise or a learned policy did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.panda.kinematics import forward
from rosa_sim.cell.layout.hardware import GRIPPER_SPEED_M_S, cell, panda
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


def home_position() -> Vector:
    """The tool at the home pose `(3,)`, m."""
    return forward(panda().home_rad)[0]


@dataclass
class ExpertCell:
    """The simplified cell that the rule reads and that a chunk rolls forward. Lengths in m."""

    tool: Vector  # (3,)
    width: float  # of the gripper
    cube: Vector  # (3,)
    drop_xy: Vector  # (2,) where to let go of it
    half: float  # of the cube's edge
    in_bin: bool  # the cube is where it shall be
    lost: bool  # the cube is where the task does not reach it

    @property
    def at_cube(self) -> bool:
        """The cube is between the fingertips."""
        return bool(
            np.linalg.norm((self.tool - self.cube)[:2]) < 0.022 and abs(self.tool[2] - self.cube[2]) < 0.025
        )

    @property
    def held(self) -> bool:
        """The fingers are on the cube."""
        return self.at_cube and 0.026 < self.width < 2 * self.half + 0.019

    def rule(self) -> tuple[Vector, float]:
        """The next tool target `(3,)` (not yet limited in speed) and gripper width."""
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
        held = self.held
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


def expert_chunk(world: World) -> NDArray[np.float32]:
    """The expert's next `(16, 4)` steps from the world as it stands: tool position m, gripper width m."""
    model = ExpertCell(
        tool=world.tool_position,
        width=world.gripper_width,
        cube=world.cube_position,
        drop_xy=world.bin_position,
        half=float(cell()["cube"]["half_size"]),
        in_bin=world.cube_in_bin,
        lost=world.cube_lost,
    )
    return roll_forward(model)


def roll_forward(model: ExpertCell) -> NDArray[np.float32]:
    """The next `(16, 4)` steps of the rule in the simplified cell."""
    steps = [model.advance() for _ in range(HORIZON)]
    return np.array([[*tool, width] for tool, width in steps], dtype=np.float32)
