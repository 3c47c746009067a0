"""The simulated Panda in its own cell. Physics runs in step with the control loop."""

from __future__ import annotations

import numpy as np

from rosa_client.drivers.arms import ArmState, Scene
from rosa_client.motion.arm_orders import Command
from rosa_contract.config.robot import RobotSpec
from rosa_sim.cell.layout.hardware import PICK_PLACE, SORT_PARTS
from rosa_sim.cell.world import World


class MujocoArm:
    """An arm driver that offers the `Scene` around it: the pick-and-place cell."""

    cell_name = PICK_PLACE
    scene: Scene

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        self._world = World(seed, self.cell_name, visits=True)
        self.scene = self._world

    def read(self) -> ArmState:
        world = self._world
        return ArmState(world.joint_position, world.joint_velocity, np.array([world.gripper_width]))

    def track(self, command: Command) -> None:
        self._world.step(command.q_rad, float(command.gripper_m[0]), command.within_s)

    def idle(self, period_s: float) -> None:
        self._world.stay(period_s)

    def close(self) -> None:
        pass


class SortPartsArm(MujocoArm):
    """The same arm in the sorting cell, where a person's hand comes in now and then.

    The rule is the task's: a judge that knows it judges from `qpos` (`World.by_rule`).
    """

    cell_name = SORT_PARTS
