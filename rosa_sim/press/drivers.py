"""The press task as drivers of a robot file: the arm with its button as physics, and cameras that draw it elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.time import Time
from rosa_interfaces.msg import WorldState

from rosa_client.drivers.arms import ArmState, Array
from rosa_client.drivers.cameras import Frame, live
from rosa_client.motion.arm_orders import Command
from rosa_contract.config.cameras import CameraSpec
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.shipped import shipped
from rosa_sim.press.scene import FOVY_DEG, PressScene

NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class PressCell:
    """The `Scene` around the arm: a button that stays pressed."""

    def __init__(self, robot: RobotSpec, seed: int) -> None:
        self._robot = robot
        self.reset(seed)

    def reset(self, seed: int) -> None:
        self.seed, self.world = seed, PressScene(self._robot, seed)

    @property
    def qpos(self) -> Array:
        return self.world.qpos

    def outcome(self) -> str:
        return "done" if self.world.pressed else "ongoing"


class PressArm:
    """Arm driver: physics in step with the control loop."""

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        self.scene = PressCell(spec, seed)

    def read(self) -> ArmState:
        world = self.scene.world
        return ArmState(world.joint_position, world.joint_velocity, np.zeros(0))

    def track(self, command: Command) -> None:
        self.scene.world.step(command.q_rad, command.within_s)

    def idle(self, period_s: float) -> None:
        self.scene.world.stay(period_s)

    def close(self) -> None:
        self.scene.world.close()


class PressCameras:
    """Camera driver: draws what the arm node's `world_state` says. Needs no `source`."""

    def __init__(self, cameras: Mapping[str, CameraSpec], node: Node, source: str) -> None:
        self._robot = replace(load_robot(shipped("configs", "robots", "ur5e.yaml")), cameras=cameras)
        self._node = node
        self._scene: tuple[int, PressScene] | None = None  # with its seed
        self._newest: WorldState | None = None
        self._count = 0
        node.create_subscription(WorldState, "world_state", self._on_world, NEWEST)

    def frames(self) -> Mapping[str, Frame]:
        if self._newest is None:
            return {}
        world, self._newest = self._newest, None
        if self._scene is None or self._scene[0] != world.seed:
            self.close()
            self._scene = world.seed, PressScene(self._robot, world.seed)
        self._scene[1].show(np.array(world.qpos))
        self._count += 1
        taken = Time.from_msg(world.header.stamp)
        age_s = max(0.0, (self._node.get_clock().now() - taken).nanoseconds / 1e9)
        pictures = self._scene[1].pictures()
        return {name: Frame(live(rgb, self._count), age_s) for name, rgb in pictures.items()}

    def focal_px(self, camera: str) -> float:
        fovy_deg = FOVY_DEG[camera]
        return self._robot.cameras[camera].height / 2 / math.tan(math.radians(fovy_deg) / 2)

    def close(self) -> None:
        if self._scene is not None:
            self._scene[1].close()
            self._scene = None

    def _on_world(self, message: WorldState) -> None:
        self._newest = message
