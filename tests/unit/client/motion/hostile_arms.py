"""Arms whose measurements are wrong, under the product's control loop and in a time of their own.

Each has a true position, a controller without limits of its own, and measurements that an attack falsifies. What the
controller is told is kept tick by tick, so that a test can hold it against the limits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rosa_client.drivers.arms import ArmState
from rosa_client.drivers.arms.franka_rules import FrankaLink, Heard, rows
from rosa_client.drivers.arms.ros2_control_rules import Ros2ControlLink, comes_to_rest, waypoints
from rosa_client.loops.arm_watch import ArmWatch
from rosa_client.loops.control_loop import ControlLoop
from rosa_client.motion.arm_orders import Command
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.limits import MotionLimits
from rosa_contract.config.arms import FORWARD_POSITION, JOINT_TRAJECTORY, Ros2ControlSettings
from rosa_contract.config.robot import load_robot
from rosa_sim.cell.world import World
from rosa_sim.controller.following import Point, PositionFollower, TrajectoryFollower

Array = npt.NDArray[np.float64]

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")
HOME = np.array(SPEC.home_rad)
LOW, HIGH = np.array(SPEC.limits.position_min_rad), np.array(SPEC.limits.position_max_rad)
SPEED = np.array(SPEC.limits.velocity_rad_s)
PERIOD_S = 0.01
CLOCK_S = 500.0  # of whoever stamps the joint states, ahead of this computer's
Stamped = tuple[Array, float]  # a joint state and its stamp


def _off(joint: int, by_rad: float) -> Array:
    shift = np.zeros(len(HOME))
    shift[joint] = by_rad
    return shift


class Attack:
    """What is measured instead of the truth: joint states of one period, from the true one and its stamp."""

    def __init__(self, name: str, begun_s: float, before: Stamped) -> None:
        self._name, self._begun_s, self._before = name, begun_s, before
        self._number = 0

    def __call__(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        self._number += 1
        return ATTACKS[self._name](self, now_s, q_rad, stamp_s)

    # One method per kind. `self._number` counts periods.

    def nothing(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(q_rad, stamp_s)]

    def zeros_beside_it(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(q_rad, stamp_s), *([(np.zeros(7), stamp_s + 0.001)] if self._number % 10 == 1 else [])]

    def other_pose_beside_it(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(q_rad, stamp_s), (HOME + _off(0, 0.7), stamp_s + 0.001)]

    def other_pose_instead(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(HOME + _off(0, 0.5), stamp_s)]

    def old_beside_it(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(q_rad, stamp_s), self._before]

    def old_instead(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [self._before]

    def old_position_new_stamp(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(self._before[0], stamp_s)]

    def one_wrong(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(q_rad + _off(1, 0.5) if self._number == 1 else q_rad, stamp_s)]

    def jumps_and_returns(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(q_rad + _off(2, 0.5) if self._number % 20 < 10 else q_rad, stamp_s)]

    def huge(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(_off(self._number % 7, 1e6), stamp_s)]

    def not_finite(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(q_rad + _off(3, (math.nan, math.inf, -math.inf)[self._number % 3]), stamp_s)]

    def drifts(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        away = min(0.6, 0.5 * (now_s - self._begun_s))
        return [(np.clip(q_rad + away * np.array([1, -1, 1, -1, 1, 1, -1]), LOW, HIGH), stamp_s)]

    def stamps_back(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(q_rad, stamp_s - 100.0)]

    def stamps_ahead(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(q_rad, stamp_s + (100.0 if self._number % 3 else 0.0))]

    def stamps_stand(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return [(q_rad, self._before[1])]

    def names_change(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        """The last joint is not among those that are named."""
        return [(q_rad[:-1] if self._number % 20 < 10 else q_rad, stamp_s)]

    def silence(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        return []

    def noise(self, now_s: float, q_rad: Array, stamp_s: float) -> list[Stamped]:
        shift = np.sin(37.0 * self._number + np.arange(7)) * (0.01 if self._number % 2 else 0.3)
        return [(q_rad + shift, stamp_s)]


ATTACKS: dict[str, Callable[[Attack, float, Array, float], list[Stamped]]] = {
    name: kind for name, kind in vars(Attack).items() if not name.startswith("_")
}


class HostileArm(ABC):
    """An arm driver with a true position, `true_rad`, and the path that its controller was told, `told`."""

    leads = True
    tick_s = 0.002  # how often its controller is told where to be
    max_following_error_rad = 0.3

    def __init__(self, begin_rad: Array = HOME) -> None:
        self.now_s = 0.0
        self.true_rad = np.array(begin_rad)
        self.told: list[Array] = []  # each `tick_s` of the last period
        self.held = False  # something holds the arm where it is
        self.fault = ""  # the controller was stopped, and says why
        self._attack = Attack("nothing", 0.0, (self.true_rad, CLOCK_S))

    def attack(self, name: str) -> None:
        self._attack = Attack(name, self.now_s, (self.true_rad, self.now_s + CLOCK_S))

    def pass_time(self) -> None:
        """One control period: the controller follows what it was told, and something is measured."""
        self.told = []
        for _ in range(round(PERIOD_S / self.tick_s)):
            self.now_s += self.tick_s
            told = self._desired()
            self.told.append(told)
            if not self.held and not self.fault:
                self.true_rad = np.array(told)
        for q_rad, stamp_s in self._attack(self.now_s, self.true_rad, self.now_s + CLOCK_S):
            self._hear(q_rad, stamp_s)

    def stop_controller(self, why: str) -> None:
        """The controller no longer moves the arm. Once it starts again, it holds the arm where it stands."""
        if self.fault and not why:
            self._hold(self.true_rad)
        self.fault = why

    def close(self) -> None:  # noqa: B027
        """Nothing to release."""

    def idle(self, period_s: float) -> None:  # noqa: B027
        """Nothing is sent."""

    @abstractmethod
    def track(self, command: Command) -> None: ...

    @abstractmethod
    def read(self) -> ArmState: ...

    @abstractmethod
    def _desired(self) -> Array:
        """Where the controller wants the arm now."""

    @abstractmethod
    def _hold(self, q_rad: Array) -> None: ...

    @abstractmethod
    def _hear(self, q_rad: Array, stamp_s: float) -> None:
        """A joint state arrives."""


class Ros2Control(HostileArm):
    """The product's rules of the `ros2_control` driver, before a controller that obeys anything at once."""

    _command = JOINT_TRAJECTORY

    def __init__(self, begin_rad: Array = HOME) -> None:
        super().__init__(begin_rad)
        self._settings = Ros2ControlSettings(command=self._command, controller_manager="")
        self._link = Ros2ControlLink(SPEC, self._settings, "/panda0", 0.0)
        self._trajectory = TrajectoryFollower(SPEC.joints, from_desired=True)
        self._hold(self.true_rad)
        self._hear(self.true_rad, CLOCK_S)

    def track(self, command: Command) -> None:
        points = [Point(p.q_rad, p.velocity_rad_s, p.after_s) for p in waypoints(self._settings, command)]
        assert self._trajectory.refusal(SPEC.joints, points) == ""
        if not self.fault:
            self._trajectory.follow(self.now_s, SPEC.joints, points, points[0])

    def rests(self, command: Command) -> tuple[Array, float]:
        return comes_to_rest(self._settings, command)

    def read(self) -> ArmState:
        state = self._link.state(self.now_s, self.fault or self._link.fault(self.now_s))
        return replace(state, may_follow=state.may_follow and not self.fault)

    def _desired(self) -> Array:
        return self._trajectory.desired(self.now_s)

    def _hold(self, q_rad: Array) -> None:
        self._trajectory.hold(q_rad)

    def _hear(self, q_rad: Array, stamp_s: float) -> None:
        self._link.hear_joints(self.now_s, stamp_s, SPEC.joints[: len(q_rad)], q_rad.tolist(), [], [])


class ForwardPosition(Ros2Control):
    """The same before a forward position controller."""

    leads = False
    tick_s = PERIOD_S
    _command = FORWARD_POSITION

    def __init__(self, begin_rad: Array = HOME) -> None:
        self._positions = PositionFollower(SPEC.joints)
        super().__init__(begin_rad)

    def track(self, command: Command) -> None:
        if not self.fault:
            self._positions.follow(command.q_rad.tolist())

    def _desired(self) -> Array:
        return self._positions.desired(self.now_s)

    def _hold(self, q_rad: Array) -> None:
        self._positions.hold(q_rad)


class Franka(HostileArm):
    """The product's rules of the `franka` driver, before a library that passes through its rows."""

    def __init__(self, begin_rad: Array = HOME) -> None:
        super().__init__(begin_rad)
        self._link = FrankaLink()
        self._hold(self.true_rad)
        self._hear(self.true_rad, CLOCK_S)
        self._link.follows()

    def stop_controller(self, why: str) -> None:
        if why:
            self._link.stopped(why)
        elif self.fault:
            self._link.follows()
        super().stop_controller(why)

    def track(self, command: Command) -> None:
        if self._link.fault():
            return
        self._rows = rows(self._link.begins(command), command.q_rad, command.within_s)
        self._link.sent(command.q_rad)

    def read(self) -> ArmState:
        return self._link.state(self.now_s, 0.04, self._link.fault())

    def _desired(self) -> Array:
        """The library follows the rows within its share of the joint limits."""
        row, self._rows = self._rows[0], self._rows[1:] if len(self._rows) > 1 else self._rows
        step = 0.5 * SPEED * self.tick_s
        self._at = self._at + np.clip(row - self._at, -step, step)
        return self._at

    def _hold(self, q_rad: Array) -> None:
        self._rows, self._at = np.array(q_rad)[None], np.array(q_rad)

    def _hear(self, q_rad: Array, stamp_s: float) -> None:
        self._link.hear(self.now_s, Heard(q_rad, np.zeros(7), np.zeros(7), "move", (), stamp_s))


class OwnDriver(HostileArm):
    """A driver from outside that measures when it is asked and passes each setpoint on: `module:Class`."""

    leads = False
    tick_s = PERIOD_S

    def __init__(self, begin_rad: Array = HOME) -> None:
        super().__init__(begin_rad)
        self._measured = self._command_rad = np.array(begin_rad)

    def track(self, command: Command) -> None:
        if not self.fault:
            self._command_rad = command.q_rad

    def read(self) -> ArmState:
        return ArmState(self._measured, np.zeros(7), np.array([0.04]), self.fault)

    def _desired(self) -> Array:
        return self._command_rad

    def _hold(self, q_rad: Array) -> None:
        self._command_rad = np.array(q_rad)

    def _hear(self, q_rad: Array, stamp_s: float) -> None:
        self._measured = q_rad


class Mujoco(OwnDriver):
    """The simulated Panda: physics instead of an arm that is where it is told to be."""

    def __init__(self, begin_rad: Array = HOME) -> None:
        self._world = World(0)
        super().__init__(self._world.joint_position)

    def pass_time(self) -> None:
        super().pass_time()
        if not self.held and not self.fault:
            self._world.step(self._command_rad, 0.04, PERIOD_S)
        self.true_rad = self._world.joint_position


def in_a_loop(arm: HostileArm) -> tuple[ChunkPlayer, ControlLoop]:
    """Who moves the arm, once its position is certain."""
    player = ChunkPlayer(MotionLimits.of(SPEC), SPEC.control_rate_hz, leads=arm.leads)
    watch = ArmWatch(SPEC, arm.max_following_error_rad)
    for _ in range(40):
        arm.pass_time()
        if watch.begin(arm.now_s, arm.read()) is None:
            break
    rate_hz, now_s = SPEC.control_rate_hz, lambda: arm.now_s
    return player, ControlLoop(arm, player, watch, rate_hz, lambda now_s, state: None, now_s)
