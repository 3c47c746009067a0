"""What the `ros2_control` driver decides: which joint is whose, what is a fault, how an arm recovers from one.

Pure: messages come in as plain values with the time at which they arrived. The ROS side is in `ros2_control.py`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rosa_client.drivers.arms import MAX_SAMPLES, ArmState, Array
from rosa_client.drivers.arms.gripper_link import GripperLink, grippers_of
from rosa_client.motion.arm_orders import Command
from rosa_client.motion.measurement import Sample
from rosa_contract.config.arms import FORWARD_POSITION, Ros2ControlSettings
from rosa_contract.config.robot import RobotSpec

ACTIVE = "active"
MANAGER_SILENT_S = 2.0  # it is asked several times a second
# A controller that was stopped counts as that for so long, and until the control loop has seen it, also where it is
# active again by then: it has stood still, so a setpoint of the motion before would make it jump.
STOPPED_S = 0.2
ROBOT_SILENT_S = 1.0  # franka_robot_state_broadcaster publishes at 30 Hz or more
EXPLAINED_BY = 2  # the second state to arrive was published after the first did: no older one is on its way
AT_REST_RAD = 1e-5  # of where it comes to rest
MAX_LISTED = 16  # names in an error

# franka_msgs/FrankaRobotState.robot_mode in which the arm does not follow its controller, and what helps.
IMMOBILE_MODES = {
    0: "not ready (robot mode other): unlock the joints and activate FCI in Desk",
    3: "guided by hand",
    4: "stopped by a reflex",
    5: "stopped by its user: release the external activation device",
    6: "recovering from an error",
}


def resolve(namespace: str, name: str) -> str:
    """An absolute ROS name: `name` itself if it has a leading slash, else below `namespace`."""
    return name if name.startswith("/") else f"{namespace.rstrip('/')}/{name}".rstrip("/") or "/"


def controllers_namespace(robot: str, settings: Ros2ControlSettings) -> str:
    """Where the controllers of the robot in the namespace `robot` are."""
    return resolve("/" + robot.strip("/"), settings.namespace) or "/"


def joint_states_topic(robot: str, settings: Ros2ControlSettings) -> str:
    """The absolute topic of the arm's joint states."""
    return resolve(controllers_namespace(robot, settings), settings.joint_states)


@dataclass(frozen=True)
class Joints:
    """One joint state: positions and when they arrived, `(dof,)` rad/s and, where known, N m."""

    sample: Sample
    velocity_rad_s: Array
    effort_nm: Array | None


class Ros2ControlLink:
    """Everything that was heard from the controllers, and what follows from it. Times are monotonic, in s."""

    def __init__(self, spec: RobotSpec, settings: Ros2ControlSettings, robot: str, now_s: float) -> None:
        """`robot`: its namespace."""
        self._settings = settings
        self._topic = joint_states_topic(robot, settings)
        self._joints = tuple(settings.joint_prefix + name for name in spec.joints)
        self.grippers = tuple(GripperLink(body, self._topic, now_s) for body in grippers_of(spec, settings))
        self._newest: Joints | None = None
        self._heard_s = -math.inf  # when the newest stamp arrived
        self._samples: deque[Sample] = deque(maxlen=MAX_SAMPLES)  # since the last `state`
        self._source = f"joint states on {self._topic}"
        self._refused = ""  # why the newest joint state was not used
        self._controllers: Mapping[str, str] | None = None
        self._controllers_s = self._robot_s = now_s
        # The controller's last state but active, when it was heard, and whether the control loop has seen it.
        self._stopped, self._stopped_s, self._stop_seen = "", -math.inf, True
        self._told_active = False  # by a change that came after it
        self._robot_states = 0  # heard since the controller is not active
        self._mode: int | None = None
        self._errors: Sequence[str] = ()

    # -- what is heard ----------------------------------------------------------------------------------------------

    def hear_joints(
        self,
        now_s: float,
        stamp_s: float,
        names: Sequence[str],
        position: Sequence[float],
        velocity: Sequence[float],
        effort: Sequence[float],
    ) -> None:
        """A joint state. Its joints are found by name; it may hold others, or the fingers only."""
        at = {name: index for index, name in enumerate(names)}
        for gripper in self.grippers:
            gripper.hear_fingers(now_s, at, position)
        missing = [name for name in self._joints if name not in at]
        if missing:
            if len(missing) < len(self._joints) or self._newest is None:
                listed = ", ".join(names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")
                lack = f"joint states on {self._topic} lack {', '.join(missing)}"
                self._refused = f"{lack}; they hold {listed or 'no joints'}"
            return
        if twice := sorted({name for name in self._joints if list(names).count(name) > 1}):
            self._refused = f"joint states on {self._topic} name {', '.join(twice)} twice"
            return
        columns = [at[name] for name in self._joints]
        q_rad = _picked(position, columns)
        if q_rad is None:
            self._refused = f"joint states on {self._topic} hold no position of every joint"
            return
        self._refused = ""
        speed = _finite(_picked(velocity, columns))
        still = np.zeros(len(columns))
        sample = Sample(q_rad, now_s, stamp_s)
        newest = Joints(sample, still if speed is None else speed, _finite(_picked(effort, columns)))
        if self._newest is None or stamp_s != self._newest.sample.stamp_s:
            self._heard_s = now_s
        self._newest = newest
        self._samples.append(newest.sample)

    def hear_publishers(self, nodes: Sequence[str]) -> None:
        """The nodes that publish the joint states."""
        others = f", which {len(nodes)} nodes publish: {', '.join(sorted(nodes))}" if len(nodes) > 1 else ""
        self._source = f"joint states on {self._topic}{others}"

    def hear_controllers(self, now_s: float, states: Mapping[str, str] | None, answers: bool = True) -> None:
        """The controllers of the controller_manager: name -> state; None: they may have changed since.

        `answers`: it was asked for them; else it tells a change. A change may only stop: what a hardware error stops is
        in the answers alone, so a change that says active may be older than that.
        """
        if answers:
            self._controllers_s = now_s
        if states is None:
            return
        state = states.get(self._settings.controller, "")
        if state == ACTIVE and not answers:
            self._told_active = True
            return
        if self.controller_state == ACTIVE:
            self._robot_states = 0
        self._controllers = dict(states)
        if state != ACTIVE:
            self._stopped, self._stopped_s, self._stop_seen = state, now_s, False
            self._told_active = False

    def hear_robot(self, now_s: float, mode: int, errors: Sequence[str]) -> None:
        """The robot's mode (FrankaRobotState.robot_mode) and its present errors by name."""
        self._mode, self._errors, self._robot_s = mode, tuple(errors), now_s
        if self._controllers is not None and self.controller_state != ACTIVE:
            self._robot_states += 1

    # -- what follows -----------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the arm's position is known."""
        return self._newest is not None

    @property
    def controller_state(self) -> str:
        """State of the arm's controller; empty when it is unknown."""
        return (self._controllers or {}).get(self._settings.controller, "")

    def _counts_as(self, now_s: float) -> str:
        """The state that counts: the present one, or a stop that was heard less than `STOPPED_S` ago or that the
        control loop has not seen yet."""
        counts = now_s < self._stopped_s + STOPPED_S or not self._stop_seen
        return self._stopped if counts else self.controller_state

    def silence(self, waited_s: float) -> str:
        """Why there is no position yet, after `waited_s`."""
        if self._refused:
            return self._refused
        return f"no joint states on {self._topic} within {waited_s:g} s; is ros2_control running there?"

    def state(self, now_s: float, fault: str) -> ArmState:
        """The newest measurement, and all since the last call."""
        newest = self._newest
        assert newest is not None, "asked before the first joint state"
        samples = tuple(self._samples)
        self._samples.clear()
        may_follow = bool(fault) and not self._stands(now_s)
        self._stop_seen |= bool(fault)
        return ArmState(
            newest.sample.q_rad,
            newest.velocity_rad_s,
            np.array([gripper.width_m for gripper in self.grippers]),
            fault,
            newest.effort_nm,
            now_s - self._heard_s,
            samples,
            self._source,
            may_follow,
        )

    def _stands(self, now_s: float) -> bool:
        """Whether it is known that the arm follows nothing."""
        stopped = self._controllers is not None and self._counts_as(now_s) != ACTIVE
        return stopped or self._mode in IMMOBILE_MODES or bool(self._errors)

    def fault(self, now_s: float) -> str:
        """Why the arm cannot move, in words; empty when it can. What explains the most comes first.

        The words do not change while the fault lasts, so that an operator's decision about it holds.
        """
        return self._fault(now_s, self._counts_as(now_s))

    def present_fault(self, now_s: float) -> str:
        """The same without a stop of the controller that is over, from which there is nothing to recover."""
        return self._fault(now_s, self.controller_state)

    def _fault(self, now_s: float, controller: str) -> str:
        return (
            self._robot_fault(now_s)
            or self._controller_fault(now_s, controller)
            or self._joint_states_fault(now_s)
        )

    def gripper_fault(self, now_s: float) -> str:
        """Why a gripper cannot be used; empty when each can."""
        return next((fault for one in self.grippers if (fault := one.fault(now_s))), "")

    def _robot_fault(self, now_s: float) -> str:
        if not self._settings.robot_state:
            return ""
        if now_s - self._robot_s > ROBOT_SILENT_S:
            return f"no state of the robot on {self._settings.robot_state} for {ROBOT_SILENT_S:g} s"
        if self._mode in IMMOBILE_MODES:
            errors = f": {', '.join(self._errors)}" if self._errors else ""
            return f"the robot is {IMMOBILE_MODES[self._mode]}{errors}"
        return f"the robot reports {', '.join(self._errors)}" if self._errors else ""

    def _controller_fault(self, now_s: float, state: str) -> str:
        manager, mine = self._settings.controller_manager, self._settings.controller
        if not manager:
            return ""
        if now_s - self._controllers_s > MANAGER_SILENT_S:
            return f"{manager} has not listed its controllers for {MANAGER_SILENT_S:g} s"
        if self._controllers is None or state == ACTIVE:
            return ""
        over = self.controller_state == ACTIVE or self._told_active
        if self._settings.robot_state and self._robot_states < EXPLAINED_BY and not over:
            return ""  # the robot may say why; one that says nothing for `ROBOT_SILENT_S` is a fault
        if not state and over:
            return f"controller {mine} was not loaded a moment ago"
        if not state:
            loaded = ", ".join(self._controllers) or "none"
            return f"controller {mine} is not loaded; loaded: {loaded}"
        return f"controller {mine} is {state}, expected {ACTIVE}"

    def _joint_states_fault(self, now_s: float) -> str:
        too_old = now_s - self._heard_s > self._settings.joint_state_timeout_s
        if self._refused or not too_old:
            return self._refused
        return f"no new joint states on {self._topic} for {self._settings.joint_state_timeout_s:g} s"


def _picked(values: Sequence[float], columns: Collection[int]) -> Array | None:
    """`values` at `columns`; None when there are too few."""
    if len(values) <= max(columns):
        return None
    return np.array([values[column] for column in columns], dtype=np.float64)


def _finite(values: Array | None) -> Array | None:
    """`values`, None when one of them is unknown."""
    return values if values is not None and np.isfinite(values).all() else None


# -- setpoints as trajectories ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Waypoint:
    """Be at `q_rad` (dof,), with `velocity_rad_s` (dof,) where given, `after_s` the trajectory was sent."""

    q_rad: Array
    velocity_rad_s: Array | None
    after_s: float


def waypoints(settings: Ros2ControlSettings, command: Command) -> tuple[Waypoint, ...]:
    """The trajectory for a command.

    With velocities the controller passes the setpoint at the speed of the motion, so a second point follows in which
    the arm comes to rest: controllers since Jazzy refuse a trajectory whose last point has a velocity. It counts only
    when no further setpoint comes.
    """
    after_s = max(settings.lookahead_s, command.within_s)
    q_rad, velocity = command.q_rad, command.velocity_rad_s
    if not settings.smooth:
        return (Waypoint(q_rad, None, after_s),)
    if np.abs(q_rad - command.rest_rad).max() < AT_REST_RAD:
        return (Waypoint(q_rad, np.zeros_like(q_rad), after_s),)
    rest = Waypoint(command.rest_rad, np.zeros_like(q_rad), after_s + command.rest_s)
    return Waypoint(q_rad, velocity, after_s), rest


def comes_to_rest(settings: Ros2ControlSettings, command: Command) -> tuple[Array, float]:
    """Where the arm stands (dof,) when no command follows, and how long after this one, s."""
    if settings.command == FORWARD_POSITION:
        return command.q_rad, command.within_s
    last = waypoints(settings, command)[-1]
    return last.q_rad, last.after_s


# -- recovery ---------------------------------------------------------------------------------------------------------

DEACTIVATE, CLEAR_ERROR, HARDWARE, ACTIVATE = (
    "deactivate the controller",
    "clear the error",
    "activate the hardware",
    "activate the controller",
)


def recovery_steps(settings: Ros2ControlSettings, fault: str, controller_state: str) -> tuple[str, ...]:
    """The steps of a recovery from `fault`, in the order that franka_ros2 documents ("Error Recovery").

    A controller that is still active is deactivated first: the controller_manager of Humble leaves it active when its
    hardware fails. What is not configured is left out; without a fault of the arm there is nothing to do.
    """
    if not fault:
        return ()
    manager = bool(settings.controller_manager)
    wanted = {
        DEACTIVATE: manager and bool(settings.hardware) and controller_state == ACTIVE,
        CLEAR_ERROR: bool(settings.error_recovery),
        HARDWARE: manager and bool(settings.hardware),
        ACTIVATE: manager and (bool(settings.hardware) or controller_state != ACTIVE),
    }
    return tuple(step for step, is_wanted in wanted.items() if is_wanted)
