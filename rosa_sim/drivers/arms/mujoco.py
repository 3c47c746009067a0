"""The simulated Panda in its cell. Physics runs in step with the control loop."""

from __future__ import annotations

from rosa_client.drivers.arms import ArmState, Array
from rosa_contract.robot import RobotSpec
from rosa_sim.cell.world import World


class MujocoArm:
    """An arm driver that offers the `Scene` around it."""

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        self.scene = World(seed)

    def read(self) -> ArmState:
        return ArmState(self.scene.joint_position, self.scene.joint_velocity, self.scene.gripper_width)

    def track(self, q_rad: Array, gripper_m: float, period_s: float) -> None:
        self.scene.step(q_rad, gripper_m, period_s)

    def close(self) -> None:
        pass
