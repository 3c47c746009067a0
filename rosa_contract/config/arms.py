"""The section `arm` of a robot file: settings of the arm driver, one dataclass per driver that has any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rosa_contract.config.cameras import TOPIC
from rosa_contract.config.strict import Reader
from rosa_contract.setting import setting
from rosa_contract.wording import name_problem, nearest, shown

# How setpoints reach the controller.
JOINT_TRAJECTORY, FORWARD_POSITION = "joint_trajectory", "forward_position"
# How the gripper is moved.
GRIPPER_COMMAND, PARALLEL_GRIPPER_COMMAND = "gripper_command", "parallel_gripper_command"
FRANKA, NO_GRIPPER = "franka", "none"
# Whether the 1 kHz loop of a directly driven Franka insists on a real-time kernel.
ENFORCE, IGNORE = "enforce", "ignore"


@dataclass(frozen=True)
class GripperActions:
    """The gripper of an arm driven by ros2_control. Names without a leading slash are relative to `arm.namespace`."""

    kind: str = setting(
        "gripper_command: a control_msgs/GripperCommand action (up to Jazzy); parallel_gripper_command: a"
        " control_msgs/ParallelGripperCommand action (since Jazzy); franka: the move, grasp and homing actions of"
        " franka_msgs; none: no gripper",
        GRIPPER_COMMAND,
        choices=(GRIPPER_COMMAND, PARALLEL_GRIPPER_COMMAND, FRANKA, NO_GRIPPER),
    )
    action: str = setting(
        "action name; with `franka`: the node that has move, grasp and homing",
        "franka_gripper/gripper_action",
    )
    open_position: float | None = setting(
        "goal position (m or rad) that opens the gripper to `gripper.max_m`, such as 0.0 for a Robotiq 2F;"
        " positions in between are interpolated linearly; default: goal positions are widths in m",
        None,
    )
    closed_position: float | None = setting(
        "goal position that closes it to `gripper.min_m`, such as 0.8 for a Robotiq 2F-85", None
    )
    joints: tuple[str, ...] = setting(
        "finger joints in the joint states; the width is computed from their mean position; default:"
        " `<name>_finger_joint1` and `2`",
        (),
    )
    joint_open_position: float | None = setting(
        "position of each finger joint when open; default: `open_position`; without either, or by default with"
        " `franka`, the finger positions add up to the width",
        None,
    )
    joint_closed_position: float | None = setting("position of each finger joint when closed", None)
    joint_states: str = setting("topic with the finger joints; default: the arm's", "")
    speed_m_s: float = setting("with `franka`: finger speed", 0.1, above=0)
    force_n: float = setting("grasp force, N", 40.0, above=0)
    timeout_s: float = setting("a goal that has no result after this time is a fault", 3.0, above=0)


@dataclass(frozen=True)
class Ros2ControlSettings:
    """Driver `ros2_control`. Names without a leading slash are relative to `namespace`."""

    namespace: str = setting(
        "namespace of the controllers; without a leading slash, relative to the robot's namespace", "/"
    )
    command: str = setting(
        "joint_trajectory: stream trajectory points to a joint_trajectory_controller; forward_position: send"
        " positions to a forward position controller",
        JOINT_TRAJECTORY,
        choices=(JOINT_TRAJECTORY, FORWARD_POSITION),
    )
    controller: str = setting("name of the controller that moves the arm", "joint_trajectory_controller")
    lookahead_s: float = setting(
        "joint_trajectory only: minimum time from sending a point to reaching it", 0.03, above=0, at_most=0.5
    )
    smooth: bool = setting(
        "joint_trajectory only: send velocities with the points, so that the controller interpolates with cubic"
        " polynomials",
        True,
    )
    joint_prefix: str = setting(
        "prefix of the controllers' joint names, added to the joint names of this file", ""
    )
    joint_states: str = setting("topic of the joint_state_broadcaster", "joint_states")
    joint_state_timeout_s: float = setting(
        "joint states older than this are a fault, which calls a human; the arm stops earlier, at"
        " `max_sensor_age_ms`",
        1.0,
        above=0,
    )
    max_following_error_rad: float = setting(
        "maximum distance of a joint from its setpoint; a larger one is a fault", 0.3, above=0
    )
    controller_manager: str = setting(
        "controller manager node, which lists and switches the controllers; empty: not used",
        "controller_manager",
    )
    robot_state: str = setting(
        "topic with franka_msgs/FrankaRobotState (mode, reflexes, errors); empty: none", ""
    )
    error_recovery: str = setting("franka_msgs/ErrorRecovery action; empty: none", "")
    hardware: str = setting("hardware component to reactivate in a recovery; empty: left as it is", "")
    start_timeout_s: float = setting("how long to wait for the first joint states", 20.0, above=0)
    gripper: GripperActions = setting("gripper", GripperActions)
    grippers: Mapping[str, GripperActions] = setting(
        "for a robot with several `arms`, instead of `gripper`: the grippers by arm name; one controller moves"
        " the joints of all arms",
        dict,
    )


@dataclass(frozen=True)
class FrankaHand:
    """The Franka Hand of an arm with `arm_driver: franka`."""

    kind: str = setting("franka: the Franka Hand; none: no gripper", FRANKA, choices=(FRANKA, NO_GRIPPER))
    speed_m_s: float = setting("finger speed", 0.1, above=0, at_most=0.2)
    force_n: float = setting("grasp force, N", 40.0, above=0, at_most=70)
    timeout_s: float = setting("a command that has no result after this time is a fault", 5.0, above=0)


@dataclass(frozen=True)
class FrankaSettings:
    """Driver `franka`: the Franka Control Interface (FCI), without ros2_control."""

    address: str = setting("host name or IP address of the robot's Control unit, such as 172.16.0.2")
    real_time: str = setting(
        "enforce: refuse a kernel without PREEMPT_RT, as libfranka does; ignore: for simulated arms only",
        ENFORCE,
        choices=(ENFORCE, IGNORE),
    )
    limit_share: float = setting(
        "fraction of Franka's joint limits used to interpolate setpoints at 1 kHz, at least velocity_scale; a"
        " higher one follows faster, but leaves less margin for lost packets before a reflex",
        0.5,
        above=0,
        at_most=1,
    )
    collision_torque_nm: float = setting(
        "external torque on any joint above which a collision is detected and the arm stops", 20.0, above=0
    )
    collision_force_n: float = setting(
        "external force (N) or torque (N m) on the hand above which a collision is detected and the arm stops",
        20.0,
        above=0,
    )
    max_following_error_rad: float = setting(
        "maximum distance of a joint from its setpoint; a larger one is a fault", 0.3, above=0
    )
    start_timeout_s: float = setting("how long to wait for the arm's answer when connecting", 10.0, above=0)
    gripper: FrankaHand = setting("gripper", FrankaHand)


NEEDED_NAMES = ("controller", "action")
ROS_NAMES = (
    *NEEDED_NAMES,
    "namespace",
    "joint_states",
    "controller_manager",
    "robot_state",
    "error_recovery",
)
ARM_SETTINGS: Mapping[str, type[Any]] = {"franka": FrankaSettings, "ros2_control": Ros2ControlSettings}


def arm_settings(source: str, driver: str, given: Mapping[str, Any]) -> Any:
    """The settings of `driver` as its dataclass, or `given` itself for a driver at "module:Class".

    Raises `ConfigError` with every mistake; paths start with `arm`.
    """
    reader = Reader(source)
    settings = read_arm(reader, driver, given)
    reader.finish()
    return settings


def read_arm(reader: Reader, driver: str, given: Mapping[str, Any]) -> Any:
    """Like `arm_settings`, but mistakes are reported to `reader`."""
    if ":" in driver:
        return given
    if driver not in ARM_SETTINGS:
        if given:
            which = f"{driver}{nearest(driver, ARM_SETTINGS)}"
            words = f"arm driver {which} takes no settings, got {', '.join(given)}"
            reader.fail("arm", words, "unknown_key")
        return given
    settings = reader.section(ARM_SETTINGS[driver], "arm", dict(given))
    if isinstance(settings, Ros2ControlSettings):
        _check_ros_names(reader, "arm", settings)
        for path, gripper in _gripper_paths(settings):
            _check_positions(reader, path, gripper)
            if gripper.kind != NO_GRIPPER:
                _check_ros_names(reader, path, gripper)
    return settings


def _check_ros_names(reader: Reader, path: str, settings: Ros2ControlSettings | GripperActions) -> None:
    """Report names that ROS does not accept: the arm node could not start with them."""
    for key in ROS_NAMES:
        told = getattr(settings, key, None)
        name = told.rstrip("/") if told is not None and key == "namespace" else told
        if name is None or TOPIC.fullmatch(name) or (not name and key not in NEEDED_NAMES):
            continue
        words = f"expected a valid ROS name of letters, digits, '_' and '/', got {shown(told)}"
        reader.fail(f"{path}.{key}", words, "invalid")


def moves_gripper(settings: Any) -> bool:
    """Whether `settings`, as `read_arm` returns them, leave the robot its gripper."""
    gripper = getattr(settings, "gripper", None)
    return gripper is None or gripper.kind != NO_GRIPPER


def _gripper_paths(settings: Ros2ControlSettings) -> list[tuple[str, GripperActions]]:
    several = [(f"arm.grippers.{name}", one) for name, one in settings.grippers.items()]
    return several or [("arm.gripper", settings.gripper)]


def check_grippers(reader: Reader, driver: str, settings: Any, grippers: Mapping[str, bool]) -> None:
    """Report differences between the driver's grippers and those of the robot's arms. `grippers`: which arm has one."""
    if not isinstance(settings, Ros2ControlSettings):
        if driver in ARM_SETTINGS:
            words = f"driver {driver} moves one arm; this robot has {', '.join(grippers)}"
            reader.fail("arm_driver", words, "conflict")
        return
    for name, exists in grippers.items():
        given = settings.grippers.get(name)
        if exists and (given is None or given.kind == NO_GRIPPER):
            words = f"expected the gripper of arm {name}; for an arm without one set arms.{name}.gripper.kind to none"
            reader.fail(f"arm.grippers.{name}", words, "missing")
    first: dict[str, str] = {}
    for name, gripper in settings.grippers.items():
        if gripper.kind != NO_GRIPPER and first.setdefault(gripper.action, name) != name:
            words = f"{gripper.action} already moves the gripper of arm {first[gripper.action]}"
            reader.fail(f"arm.grippers.{name}.action", words, "conflict")
        if not grippers.get(name):
            words = f"expected an arm with a gripper, got {name}{nearest(name, grippers)}"
            reader.fail(f"arm.grippers.{name}", words, "unknown_name")


def check_fingers(reader: Reader, settings: Any, joints: Sequence[str]) -> None:
    """Report finger joints with an invalid name, or that are used twice. `joints`: the robot's joints."""
    if not isinstance(settings, Ros2ControlSettings):
        return
    first = {joint: f"joints[{index}]" for index, joint in enumerate(joints)}
    for path, gripper in _gripper_paths(settings):
        for index, name in enumerate(gripper.joints):
            where = f"{path}.joints[{index}]"
            if problem := name_problem(name):
                reader.fail(where, problem, "out_of_range")
            elif name in first:
                reader.fail(where, f"{name} is already {first[name]}", "duplicate_key")
            first.setdefault(name, where)


def _check_positions(reader: Reader, where: str, gripper: GripperActions) -> None:
    for prefix in ("", "joint_"):
        opened, closed = (getattr(gripper, f"{prefix}{end}_position") for end in ("open", "closed"))
        path, other = f"{where}.{prefix}open_position", f"{prefix}closed_position"
        if (opened is None) != (closed is None):
            reader.fail(path, f"expected it together with {other}, got only one of them", "missing")
        elif opened is not None and opened == closed:
            reader.fail(path, f"must differ from {other}, got {opened:g} for both", "conflict")
    if gripper.kind == FRANKA and gripper.open_position is not None:
        words = f"expected none with kind {FRANKA}, which takes widths"
        reader.fail(f"{where}.open_position", words, "conflict")
