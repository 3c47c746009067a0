"""The simulated Panda as its controllers drive it, one update after another, with faults on purpose. No ROS here."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from rosa_sim.cell.layout.hardware import panda
from rosa_sim.cell.world import World
from rosa_sim.controller.following import Array, Point, PositionFollower, TrajectoryFollower
from rosa_sim.controller.power import SHOWN, Event, Power, Shown, after
from rosa_sim.controller.wrong_states import WrongStates

# What `fault` may be, and what it does.
FAULTS = {
    "controller_stopped": "the controller is deactivated, as by a person or a crash",
    "controller_restarted": "the controller is deactivated and activated again at once",
    "trajectory_rejected": "every command is refused, and nobody is told, as topics have no answer",
    "reflex": "the robot stops by a reflex, as after a collision",
    "stale_joint_states": "no joint state is published",
    "gripper_stuck": "the fingers do not move",
    "second_publisher": "another node publishes zeros as joint states, ten times a second",
    "frozen_stamps": "the last joint state is published again and again",
    "wrong_sample": "one joint state is 0.5 rad off",
    "joint_jump": "one joint jumps by 0.5 rad and back, again and again",
}
VELOCITY_RAD_S = np.array(panda().limits.velocity_rad_s)
NEAR_RAD = 0.05  # after a reset, commands further away than this are meant for the scene before
SOON_S = 0.5  # commands that take longer lead the arm on after a fault; what follows is its usual stream
STUCK_AFTER_S = 0.5  # fingers that press for this long have stalled
STILL_M_S = 0.005
MAX_CHANGES = 16  # that nobody asks for


class SimulatedPanda:
    """Not thread-safe: one owner, with a lock around it. Times are monotonic, in s."""

    def __init__(self, seed: int, joints: Sequence[str], forward: bool, from_desired: bool) -> None:
        """`joints`: as the controllers call them. `forward`: positions instead of trajectories."""
        self.world = World(seed)
        self._trajectory = TrajectoryFollower(joints, from_desired)
        self._positions = PositionFollower(joints)
        self._follower = self._positions if forward else self._trajectory
        self.power = Power.RUNNING
        self.fault = ""
        self.refused = ""  # why the last command was refused
        self.wrong_states = WrongStates()
        self.told_share = (
            0.0  # greatest speed of the commanded arm since the last fault began, of its joints' limits
        )
        self._width_m = self.world.gripper_width  # asked for
        self._still_s = 0.0  # how long the fingers have not moved
        self._reset = False  # nobody has commanded the arm where it stands since
        self._listed = True
        # States of the controller that nobody was told yet.
        self._changes = deque([self.shown.controller], maxlen=MAX_CHANGES)
        self._target: Array = self.world.joint_position  # of its motors
        self._told: Array = self._target  # where the controllers want it now
        # When it arrived, joints and points. On a busy machine updates come late and several in a row.
        self._arrived: deque[tuple[float, Sequence[str], Sequence[Point]]] = deque()
        self._updated_s: float | None = None
        self._follower.hold(self._target)

    @property
    def shown(self) -> Shown:
        return SHOWN[self.power]

    @property
    def effort_nm(self) -> Array:
        """Torque of the arm's servos, (7,) N m."""
        return np.array(self.world.data.qfrc_actuator[:7])

    @property
    def command_rad(self) -> Array:
        """Where the controllers want the arm now, (7,)."""
        return np.array(self._told)

    # -- commands ---------------------------------------------------------------------------------------------------

    def trajectory(self, now_s: float, joints: Sequence[str], points: Sequence[Point]) -> None:
        """Follow a trajectory from the first update after now on."""
        self.refused = self._trajectory.refusal(joints, points)
        if self._takes(points[-1].q_rad if points else None, points[-1].after_s if points else 0.0):
            self._arrived.append((now_s, joints, points))

    def positions(self, positions: Sequence[float]) -> None:
        """Go to positions at once."""
        self.refused = self._positions.refusal(positions)
        if self._takes(np.array(positions), 0.0):
            self._positions.follow(positions)

    def _takes(self, q_rad: Array | None, within_s: float) -> bool:
        """Whether a command that is well-formed is carried out."""
        if self.refused or q_rad is None:
            return False
        if self._reset and within_s < SOON_S and np.abs(q_rad - self._target).max() < NEAR_RAD:
            self._reset = False
        if self.fault == "trajectory_rejected":
            self.refused = "it is rejected on purpose"
        elif self.power is not Power.RUNNING:
            self.refused = f"the controller is {self.shown.controller}"
        return not self.refused

    @property
    def adopted(self) -> bool:
        """Whether the sender of the commands has seen the last reset: it commands the arm where it stands now, and has
        heard that the controller is active again."""
        return not self._reset and self._listed

    def listing(self) -> str:
        """The controller's state, as the controller_manager lists it."""
        self._listed = self._listed or self.power is Power.RUNNING
        return self.shown.controller

    def changes(self) -> list[str]:
        """The controller's states since the last call, as the controller_manager tells them."""
        changes = list(self._changes)
        self._changes.clear()
        return changes

    def grip(self, width_m: float) -> None:
        """Move the fingers to `width_m` apart."""
        self._still_s = 0.0
        if self.fault != "gripper_stuck":
            self._width_m = width_m

    def gripper_stalled(self) -> bool:
        """Whether the fingers have pressed without moving for long enough."""
        return self._still_s > STUCK_AFTER_S

    def turn(self, event: Event) -> bool:
        """Switch hardware or controller, or clear an error; returns whether that is possible now."""
        power = after(self.power, event)
        if power is None:
            return False
        if power is not self.power:
            self._stand()
        self._becomes(power)
        return True

    def break_down(self, fault: str) -> None:
        """Begin a fault of `FAULTS`, or end all with an empty text. What it stopped stays stopped."""
        self.fault = fault
        self.wrong_states.turn(fault)
        if fault:
            self.told_share = 0.0
        if fault == "controller_stopped":
            self.turn(Event.DEACTIVATE)
        elif fault == "controller_restarted":
            if self.turn(Event.DEACTIVATE):
                self.turn(Event.ACTIVATE)
        elif fault == "reflex":
            self.turn(Event.COLLIDE)
        elif fault == "gripper_stuck":
            self._width_m = self.world.gripper_width

    def reset(self, seed: int) -> None:
        """Lay out another scene with the arm at home.

        Its controller is inactive until somebody recovers the arm: what is still on its way is meant for the scene
        before.
        """
        self.world.reset(seed)
        self._becomes(Power.STOPPED)
        self._reset, self._listed = True, False
        self._width_m = self.world.gripper_width
        self._stand()

    # -- time -------------------------------------------------------------------------------------------------------

    def stand_still(self, from_s: float, to_s: float) -> None:
        """Nothing was simulated between two times, as when the machine was busy for longer than can be made up for.

        What was followed goes on from where it was. Else the arm would be where it should be by now within one update,
        as if thrown there, and lose what it holds.
        """
        self._trajectory.delay(to_s - from_s)
        self._arrived = deque((max(at_s, to_s), joints, points) for at_s, joints, points in self._arrived)
        self._updated_s = None

    def update(self, now_s: float, period_s: float) -> None:
        """One update of the controllers, then `period_s` of physics. The motors are no faster than their limits."""
        passed_s = period_s if self._updated_s is None else max(period_s, now_s - self._updated_s)
        self._updated_s = now_s
        if self.power is Power.RUNNING:
            self._follow(now_s)
            told, self._told = self._told, self._follower.desired(now_s)
            share = float(np.max(np.abs(self._told - told) / (passed_s * VELOCITY_RAD_S)))
            self.told_share = max(self.told_share, share)
            reach = VELOCITY_RAD_S * period_s
            self._target = self._target + np.clip(self._told - self._target, -reach, reach)
        before_m = self.world.gripper_width
        self.world.step(self._target, self._width_m, period_s)
        moved_m = abs(self.world.gripper_width - before_m)
        self._still_s = self._still_s + period_s if moved_m < STILL_M_S * period_s else 0.0

    def _follow(self, now_s: float) -> None:
        """Take the trajectories that have arrived by `now_s`; each begins when it arrived."""
        while self._arrived and self._arrived[0][0] <= now_s:
            world = self.world
            measured = Point(world.joint_position, world.joint_velocity, 0.0)
            self._trajectory.follow(*self._arrived.popleft(), measured)

    def _becomes(self, power: Power) -> None:
        before, self.power = self.shown.controller, power
        if self.shown.controller != before:
            self._changes.append(self.shown.controller)

    def _stand(self) -> None:
        """Hold where the arm is."""
        self._arrived.clear()
        self._target = self._told = self.world.joint_position
        self._follower.hold(self._target)
