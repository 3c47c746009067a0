"""Arms. A driver sends one command per control period; it neither plays chunks, nor keeps limits, nor judges what it
measures: a command has passed the last check, and what is measured counts only after `MeasurementCheck`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rosa_client.drivers import load
from rosa_client.motion.arm_orders import Command
from rosa_client.motion.measurement import Sample
from rosa_contract.config.robot import RobotSpec

Array = npt.NDArray[np.float64]

MAX_SAMPLES = 256  # that a driver keeps between two reads

ARM_DRIVERS = {
    "mujoco": "rosa_sim.drivers.arms.mujoco:MujocoArm",
    "mujoco_sort_parts": "rosa_sim.drivers.arms.mujoco:SortPartsArm",
    "mujoco_body": "rosa_sim.bodies:BodyArm",
    "echo": "rosa_client.drivers.arms.echo:EchoArm",
    "franka": "rosa_client.drivers.arms.franka:FrankaArm",
    "ros2_control": "rosa_client.drivers.arms.ros2_control:Ros2ControlArm",
}


@dataclass(frozen=True)
class ArmState:
    """An arm's measurements, and the reason if it cannot move."""

    q_rad: Array  # joint positions (dof,), rad
    velocity_rad_s: Array  # joint velocities (dof,), rad/s
    gripper_m: Array  # gripper widths (grippers,), m
    # Why the arm cannot move, such as a tripped brake or a reflex, until the driver has recovered; empty: it can move.
    fault: str = ""
    effort_nm: Array | None = None  # joint torques (dof,), N m; None: not measured
    age_s: float = 0.0  # age of the measurement, s
    # Samples measured since the last `read`, oldest first; None: the driver computes `q_rad` itself, for this moment.
    samples: tuple[Sample, ...] | None = None
    source: str = ""  # description of where the measurements come from; may be empty
    # The fault is only that nothing is heard: the arm may follow all the same, so setpoints bring it to rest.
    may_follow: bool = False


class ArmDriver(Protocol):
    """An arm. Called only from the thread of the control loop.

    Report a temporary fault in `ArmState.fault`: the loop continues, and the arm gets no orders until the fault is
    gone. An exception from a driver ends the loop for good.
    """

    def read(self) -> ArmState:
        """Return the latest measurement."""

    def track(self, command: Command) -> None:
        """Send `command` exactly as given. Must not block for more than a fraction of the control period."""

    def idle(self, period_s: float) -> None:
        """Called in a control period without a command: send nothing. A simulated arm advances by `period_s`."""

    def close(self) -> None:
        """Release the hardware."""


@runtime_checkable
class ConnectingArm(Protocol):
    """An arm that has to be reached first: through ROS, in the namespace of its robot, or through a network."""

    def connect(self, namespace: str) -> None:
        """Called once, before the first `read`. Raises `DriverError` saying what is missing."""


@runtime_checkable
class FollowedArm(Protocol):
    """An arm behind a controller, which may not follow."""

    @property
    def leads(self) -> bool:
        """Whether it keeps to `Command.within_s` when that is longer than a control period, moving there evenly."""

    @property
    def max_following_error_rad(self) -> float:
        """A joint further than this from its setpoint does not follow."""


@runtime_checkable
class CoastingArm(Protocol):
    """An arm whose controller goes on by itself when no further command comes."""

    def rests(self, command: Command) -> tuple[Array, float]:
        """Where it then stands, `command.rest_rad` or `command.q_rad`, and how long after `command` was sent, s."""


@runtime_checkable
class RecoveringArm(Protocol):
    """An arm that can be helped out of a fault when a person says so."""

    def recover(self) -> None:
        """Begin to recover; must not block. `ArmState.fault` says how it goes, and is empty once it worked."""


@runtime_checkable
class HaltingArm(Protocol):
    """An arm that may begin something later than it was told to: a gripper may finish its last goal first."""

    def halt(self) -> None:
        """Begin nothing any more: what still waits is dropped, and commands only hold. Must not block."""

    def go_on(self) -> None:
        """An order that moves was taken: obey the commands again."""


@runtime_checkable
class Scene(Protocol):
    """The simulated cell around an arm. Called from the control loop's thread only."""

    @property
    def seed(self) -> int:
        """Which scene it is; equal seeds give equal scenes."""

    @property
    def qpos(self) -> Array:
        """Its whole state `(n,)`, enough to draw it in another process."""

    def reset(self, seed: int) -> None:
        """Put the arm home and lay out the scene of `seed`."""

    def outcome(self) -> str:
        """How the task stands: `ongoing`, `done` or `failed`."""


def scene_of(arm: ArmDriver) -> Scene | None:
    """The scene that a simulated driver offers as its attribute `scene`; None for any other driver."""
    scene = getattr(arm, "scene", None)
    return scene if isinstance(scene, Scene) else None


def connecting(arm: ArmDriver) -> ConnectingArm | None:
    """The arm itself when it has `connect`; None for any other driver."""
    return arm if isinstance(arm, ConnectingArm) else None


def followed(arm: ArmDriver) -> FollowedArm | None:
    """The arm itself when it is behind a controller; None for any other driver."""
    return arm if isinstance(arm, FollowedArm) else None


def rests(arm: ArmDriver | FollowedArm, command: Command) -> tuple[Array, float]:
    """Where an arm behind a controller stands when no command follows `command`, and how long after it, s."""
    return arm.rests(command) if isinstance(arm, CoastingArm) else (command.q_rad, command.within_s)


def recovering(arm: ArmDriver) -> RecoveringArm | None:
    """The arm itself when it has `recover`; None for any other driver."""
    return arm if isinstance(arm, RecoveringArm) else None


def halting(arm: ArmDriver) -> HaltingArm | None:
    """The arm itself when it has `halt` and `go_on`; None for any other driver."""
    return arm if isinstance(arm, HaltingArm) else None


def create_arm(name: str, spec: RobotSpec, seed: int) -> ArmDriver:
    """The arm driver called `name`, or at "module:Class"; `seed` lays out the scene of a simulated one."""
    arm: ArmDriver = load("arm", name, ARM_DRIVERS)(spec, seed)
    return arm
