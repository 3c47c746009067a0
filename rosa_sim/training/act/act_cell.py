"""The pick-and-place cell under LeRobot's names: two pictures and the tool's place in, steps of the tool out.

`rosa_sim/training/act/factory.yaml` says the same to ROSA, as an adapter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_server.models.panda.kinematics import forward, inverse_path
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.rollout import SynchronousArm
from rosa_sim.cell.world import World
from rosa_sim.training.data.pictures import POLICY_CAMERAS, through_jpeg

PICTURES = {name: f"observation.images.{name}" for name in POLICY_CAMERAS}
STATE, ACTION = "observation.state", "action"
TASK = "pick the cube and place it in the bin"
ROWS = 8  # of a chunk: 400 ms
OPEN_M, HALF_OPEN_M = 0.08, 0.04
JPEG_QUALITY = 90


class ActCell:
    """A world, its cameras and its arm."""

    def __init__(self) -> None:
        self.world = World(0)
        self._renderer = SceneRenderer(POLICY_CAMERAS)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """The cell of `seed`, the arm at home."""
        self.world.reset(seed)
        self.settle()

    def settle(self) -> None:
        """After the world was put somewhere else."""
        self.arm = SynchronousArm(self.world)
        self.arm.wait()

    @property
    def tool_m(self) -> NDArray[np.float64]:
        """`(3,)`, as whoever knows the joints alone has it."""
        tool_m: NDArray[np.float64] = forward(self.world.joint_position)[0]
        return tool_m

    def look(self, quality: int = JPEG_QUALITY) -> dict[str, Any]:
        """Pictures `(96, 96, 3)` after JPEG, and the state `(4,)`: tool position and gripper width, m."""
        pictures = self._renderer.render(self.world.seed, self.world.qpos)
        seen: dict[str, Any] = {PICTURES[name]: through_jpeg(one, quality) for name, one in pictures.items()}
        seen[STATE] = np.array([*self.tool_m, self.world.gripper_width], np.float32)
        return seen

    def play(self, steps: ArrayLike) -> None:
        """Play rows `(n, 4)`, 50 ms each: steps of the tool, m, from where it is, and the gripper's width, m."""
        rows = np.asarray(steps, np.float64)
        path_m = self.tool_m + np.cumsum(rows[:, :3], axis=0)
        self.play_joints(self.joints_along(path_m), rows[:, 3])

    def joints_along(self, path_m: NDArray[np.float64]) -> NDArray[np.float64]:
        """Joint positions `(n, 7)` rad that lead the tool along `(n, 3)` m, pointing down."""
        q_rad: NDArray[np.float64] = inverse_path(path_m[None], self.world.joint_position[None])[0]
        return q_rad

    def play_joints(self, q_rad: NDArray[np.float64], widths_m: NDArray[np.float64]) -> None:
        """Play joint positions `(n, 7)`, with the gripper opened or closed, whichever is nearer."""
        widths = np.where(widths_m > HALF_OPEN_M, OPEN_M, 0.0)
        self.arm.play(np.column_stack([q_rad, widths]), executed_steps=len(q_rad))

    def close(self) -> None:
        self._renderer.close()
