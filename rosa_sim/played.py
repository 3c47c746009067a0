"""The robot's own core and its chunk player on a simulated clock: what the core orders of the arm is played at once."""

from __future__ import annotations

import numpy.typing as npt

from rosa_client.motion import arm_orders
from rosa_client.motion.arm_orders import Setpoint
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.limits import MotionLimits
from rosa_client.runtime.commands import HOLDING, MOVING, PLAYING, Command, Hold, Inputs, Play
from rosa_client.runtime.runtime import JOINT_STATE, RobotRuntime
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.tasks import Task

STATES = {
    arm_orders.PlayerState.HOLDING: HOLDING,
    arm_orders.PlayerState.PLAYING: PLAYING,
    arm_orders.PlayerState.MOVING: MOVING,
}


class PlayedRobot:
    """One robot. Its cameras and joints are always fresh, and nothing is wrong with its arm."""

    def __init__(
        self, task: Task, robot: RobotSpec, q_rad: npt.ArrayLike, gripper_m: npt.ArrayLike = ()
    ) -> None:
        """It stands at `q_rad` (dof,) with its grippers at `gripper_m` (grippers,)."""
        self.core = RobotRuntime("robot", task, robot)
        self.player = ChunkPlayer(MotionLimits.of(robot), robot.control_rate_hz)
        self.player.reset(q_rad, gripper_m)
        self._sources = (*robot.cameras, JOINT_STATE)

    def order(self, now_s: float, command: Play | Hold) -> None:
        """Do what the core says the arm should do."""
        order: arm_orders.Order = arm_orders.Hold()
        if isinstance(command, Play):
            order = arm_orders.Play(command.actions, command.step_s, command.skip_s, command.duration_s)
        self.player.order(now_s, arm_orders.OrderId(1, command.sequence), order)

    def tick(self, now_s: float) -> list[Command]:
        """What the core says in this control period."""
        player = self.player
        arm = (STATES[player.state], player.last.seq, player.fault, player.cut_short)
        return self.core.tick(now_s, Inputs(dict.fromkeys(self._sources, now_s), True, "", *arm))

    def setpoint(self, now_s: float) -> Setpoint:
        """Of this control period, once the core's commands of it are carried out."""
        if self.core.lets_move:
            self.player.alive(now_s, self.player.last)
        setpoint = self.player.update(now_s)
        assert setpoint is not None, "nothing is wrong with this arm"
        return setpoint
