"""The simulated Panda in its own cell. Physics runs in step with the control loop."""

from __future__ import annotations

import numpy as np

from rosa_client.drivers.arms import ArmState, Array, Scene
from rosa_client.motion.arm_orders import Command
from rosa_contract.config.robot import RobotSpec
from rosa_sim.cell.arm import ArmInCell
from rosa_sim.cell.sort_parts.world import SortWorld
from rosa_sim.cell.world import World


class MujocoArm:
    """An arm driver that offers the `Scene` around it: the pick-and-place cell."""

    scene: Scene

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        world = World(seed)
        self._world: ArmInCell = world
        self.scene = world

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
    """The same arm in the sorting cell, where a person's hand comes in now and then."""

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        world = SortWorld(seed, visits=True)
        self._world = world
        self.scene = SortScene(world)


class SortScene:
    """The sorting cell as a `Scene`. The rule is the task's: who knows it judges from `qpos` (`SortWorld.by_rule`)."""

    def __init__(self, world: SortWorld) -> None:
        self._world = world

    @property
    def seed(self) -> int:
        return self._world.seed

    @property
    def qpos(self) -> Array:
        return self._world.qpos

    def reset(self, seed: int) -> None:
        self._world.reset(seed)

    def outcome(self) -> str:
        """done: every block is in a bin, whichever. failed: none is left that the arm could put there."""
        places = [block.place for block in self._world.blocks]
        if "mat" in places or "hand" in places:
            return "ongoing"
        return "failed" if "lost" in places else "done"
