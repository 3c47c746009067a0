"""What a robot is, apart from its tasks: cameras, joints, limits, poses and drivers (`configs/robots/*.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rosa_contract.config.arms import NO_GRIPPER, moves_gripper, read_arm
from rosa_contract.config.cameras import CameraSpec, check_cameras
from rosa_contract.config.documents import EXTENDS, ROBOT, mistaken, named, read_extended
from rosa_contract.config.spaces import SPACES
from rosa_contract.config.strict import Reader
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_contract.setting import setting
from rosa_contract.wire.messages import CameraInfo, Hello
from rosa_contract.wording import name_problem


@dataclass(frozen=True)
class JointLimits:
    """Limits that every setpoint keeps, one value per joint."""

    position_min_rad: tuple[float, ...] = setting("minimum position, rad")
    position_max_rad: tuple[float, ...] = setting("maximum position, rad")
    velocity_rad_s: tuple[float, ...] = setting("rad/s", above=0)
    acceleration_rad_s2: tuple[float, ...] = setting("rad/s^2", above=0)
    jerk_rad_s3: tuple[float, ...] = setting("rad/s^3", above=0)

    @property
    def dof(self) -> int:
        """Number of joints."""
        return len(self.position_min_rad)


MODIFIED, STANDARD = "modified", "standard"  # Denavit-Hartenberg parameters


@dataclass(frozen=True)
class ChainSpec:
    """The kinematic chain as modified (Craig) Denavit-Hartenberg rows, one per joint and one for the flange.

    Row i turns about x by `alpha_rad[i]`, shifts along x by `a_m[i]`, turns about z by the joint's angle (0 in the
    flange's row) and shifts along z by `d_m[i]`. Standard parameters in a file are read as these.
    """

    a_m: tuple[float, ...] = setting("shift along x, m: one per joint, then the flange's")
    d_m: tuple[float, ...] = setting("shift along z, m: one per joint, then the flange's")
    alpha_rad: tuple[float, ...] = setting("turn about x, rad: one per joint, then the flange's")
    convention: str = setting(
        "modified: Craig's, as Franka publishes them; standard: as Universal Robots publishes them, one per joint and"
        " none for the flange",
        MODIFIED,
        choices=(MODIFIED, STANDARD),
    )
    tool_turn_rad: float = setting("turn of the hand on the flange about z, rad", 0.0)
    tool_offset_m: float = setting("from the flange along z to the point between the fingertips, m", 0.0)
    points: Mapping[str, int] = setting(
        "joint frames whose origins stay in the workspace besides flange and tool: number of the joint by name",
        dict,
        at_least=1,
    )


@dataclass(frozen=True)
class WorkspaceSpec:
    """The box in the base frame that the chain's points never leave."""

    min_m: tuple[float, ...] = setting("minimum x, y, z in m", length=3)
    max_m: tuple[float, ...] = setting("maximum x, y, z in m", length=3)


FINGERS = "fingers"


@dataclass(frozen=True)
class GripperSpec:
    """Opening between the fingers. A robot without a gripper has the opening 0 in every order and measurement."""

    min_m: float = setting("closed, m", 0.0, at_least=0)
    max_m: float = setting("open, m", 0.08, above=0)
    kind: str = setting(
        "fingers: from `min_m` to `max_m` apart; none: this robot has no gripper, and its actions hold joints only",
        FINGERS,
        choices=(FINGERS, NO_GRIPPER),
    )

    @property
    def exists(self) -> bool:
        """Whether the robot has a gripper."""
        return self.kind != NO_GRIPPER


WITHOUT_GRIPPER = GripperSpec(0.0, 0.0, NO_GRIPPER)


@dataclass(frozen=True)
class RobotSpec:
    """One kind of robot."""

    name: str = setting("kind of robot")
    joints: tuple[str, ...] = setting("joint names, in the order of every joint array")
    limits: JointLimits = setting("joint limits")
    cameras: Mapping[str, CameraSpec] = setting("cameras by name")
    home_rad: tuple[float, ...] = setting("where a task starts and a retry restarts, rad")
    safe_rad: tuple[float, ...] = setting("where return_to_safe_state goes, rad")
    clear_rad: tuple[float, ...] | None = setting(
        "high above everything: a retry goes there first, rad; default: safe_rad", None
    )
    drop_rad: tuple[float, ...] | None = setting(
        "low above free ground: a retry puts down there what the gripper holds, rad; default: it keeps it",
        None,
    )
    chain: ChainSpec | None = setting(
        "link lengths; without them only joints are limited, not positions in space", None
    )
    workspace: WorkspaceSpec | None = setting("box that the arm stays in; needs `chain`", None)
    action_spaces: tuple[str, ...] | None = setting(
        "in which spaces besides joint positions it takes a model's actions; default: all that it can carry out, those"
        " of the tool only with `chain`",
        None,
        choices=tuple(SPACES),
    )
    velocity_scale: float = setting(
        "factor on velocity, acceleration and jerk of every motion", 1.0, above=0, at_most=1
    )
    gripper: GripperSpec = setting("gripper", GripperSpec)
    control_rate_hz: float = setting("setpoints per second", 100.0, at_least=10, at_most=2000)
    max_sensor_age_ms: float = setting(
        "the arm stops when its newest frame or joint state is older", 500.0, above=0
    )
    arm_driver: str = setting("arm driver, a known name or `module:Class`; required in a file", "")
    arm: Mapping[str, Any] = setting("settings of the arm driver", dict)
    camera_driver: str = setting(
        "driver of the cameras that name none: a known name, `module:Class` or `external`", ""
    )
    extends: str = setting(
        "another robot file, so that this one says only what differs: a path seen from its folder, or"
        " rosa:panda.yaml for a shipped one. Mappings are merged, other values replaced, `null` takes one away; with"
        " another `arm_driver`, `arm` begins anew",
        "",
    )

    @property
    def action_names(self) -> tuple[str, ...]:
        """What the columns of an action are: the joints and, where there is one, the gripper's width."""
        return (*self.joints, "gripper") if self.gripper.exists else self.joints

    @property
    def spaces(self) -> tuple[str, ...]:
        """The spaces besides joint positions in which it takes actions."""
        able = tuple(name for name, one in SPACES.items() if self.chain is not None or not one.needs_chain)
        return able if self.action_spaces is None else self.action_spaces

    @property
    def finger_joints(self) -> tuple[str, ...]:
        """The joints, half the gripper's width each, by which the arm node tells that width; none without a gripper."""
        return tuple(f"{self.name}_finger_joint{i}" for i in (1, 2)) if self.gripper.exists else ()

    def camera_driver_of(self, camera: str) -> str:
        """The driver of one camera: its own, or the robot's."""
        return self.cameras[camera].driver or self.camera_driver

    @property
    def poses(self) -> dict[str, tuple[float, ...]]:
        """The named poses that this robot has, rad."""
        named = {
            "home": self.home_rad,
            "safe": self.safe_rad,
            "clear": self.clear_rad or self.safe_rad,
            "drop": self.drop_rad,
        }
        return {name: joints for name, joints in named.items() if joints is not None}

    def pose(self, name: str) -> tuple[float, ...]:
        """Joints of the pose "home", "safe", "clear" or "drop", rad. Raises `KeyError` when this robot has none."""
        try:
            return self.poses[name]
        except KeyError:
            known = ", ".join(self.poses)
            raise KeyError(f"{self.name} has no pose {name!r}; it has {known}") from None


def hello_of(robot_id: str, task: str, robot: RobotSpec) -> Hello:
    """What a robot of this kind says about itself to a server."""
    cameras = {
        name: CameraInfo(height=c.height, width=c.width, encoding=c.encoding)
        for name, c in robot.cameras.items()
    }
    state = {"joint_position": len(robot.joints)} | ({"gripper_width": 1} if robot.gripper.exists else {})
    return Hello(robot_id, task, cameras, state, actions=robot.spaces)


def load_robot(path: str | Path) -> RobotSpec:
    """Load and check a robot file, and those that it extends. Raises `ConfigError` listing every mistake in them.

    A robot without a gripper may say so in `gripper.kind` or in `arm.gripper.kind`; both are `none` then.
    """
    document, origins = read_extended(path)
    try:
        return _robot(document, str(path))
    except ConfigError as error:
        raise named(error, str(path), origins) from None


def robot_from(document: Any, source: str) -> RobotSpec:
    """A `RobotSpec` from plain YAML values, which extend no file."""
    if isinstance(document, dict) and EXTENDS in document:
        words = "only a file can extend another one: values have no folder to look in"
        raise ConfigError(source, [ConfigProblem(EXTENDS, "conflict", words)])
    return _robot(document, source)


def _robot(document: Any, source: str) -> RobotSpec:
    reader = Reader(source)
    if problem := mistaken(document, ROBOT):
        reader.fail("", problem, "wrong_type")
        reader.finish()
    spec = reader.section(RobotSpec, "", document)
    reader.finish()
    assert isinstance(spec, RobotSpec)
    settings = _check(reader, spec)
    reader.finish()
    if spec.chain is not None and spec.chain.convention == STANDARD:
        spec = replace(spec, chain=_modified(spec.chain))
    return spec if spec.gripper.exists and moves_gripper(settings) else _without_gripper(spec, settings)


def _modified(chain: ChainSpec) -> ChainSpec:
    """Standard parameters as modified ones: what is along x comes after its joint, so it is in the next row."""
    return replace(
        chain,
        a_m=(0.0, *chain.a_m),
        d_m=(*chain.d_m, 0.0),
        alpha_rad=(0.0, *chain.alpha_rad),
        convention=MODIFIED,
    )


def _without_gripper(spec: RobotSpec, settings: Any) -> RobotSpec:
    """Robot and driver agree, wherever the file says it."""
    arm = dict(spec.arm)
    if hasattr(settings, "gripper"):
        arm["gripper"] = {**arm.get("gripper", {}), "kind": NO_GRIPPER}
    return replace(spec, gripper=WITHOUT_GRIPPER, arm=arm)


def _check(reader: Reader, spec: RobotSpec) -> Any:
    """Note what is wrong between the values; returns the settings of the arm's driver."""
    count = len(spec.joints)
    if not count:
        reader.fail("joints", "is empty; expected the names of the joints", "missing")
    _check_names(reader, "joints", spec.joints)
    limits = spec.limits
    lists = {f"limits.{name}": getattr(limits, name) for name in JointLimits.__dataclass_fields__}
    poses = ("home_rad", "safe_rad", "clear_rad", "drop_rad")
    lists |= {name: getattr(spec, name) for name in poses if getattr(spec, name) is not None}
    for path, values in lists.items():
        if len(values) != count:
            reader.fail(path, f"expected {count} values, one per joint, got {len(values)}", "wrong_length")
    _check_places(reader, spec)
    check_cameras(reader, spec.cameras, spec.camera_driver)
    if not spec.arm_driver:
        # No default: a file that names no driver must not move a simulated arm, nor a real one.
        reader.fail("arm_driver", "is missing; expected the name of an arm driver", "missing")
    settings = read_arm(reader, spec.arm_driver, spec.arm)
    _check_names(reader, "arm.gripper.joints", getattr(getattr(settings, "gripper", None), "joints", ()))
    # What has another length is named above; of the rest every mistake is told in the same round.
    sized = {path for path, values in lists.items() if len(values) == count}
    ranged = {"limits.position_min_rad", "limits.position_max_rad"} <= sized
    ends = (limits.position_min_rad, limits.position_max_rad) if ranged else ((), ())
    for index, (least, most) in enumerate(zip(*ends, strict=True)):
        if least >= most:
            words = f"must be > position_min_rad ({least:g}), got {most:g}"
            reader.fail(f"limits.position_max_rad[{index}]", words, "conflict")
        for path in poses:
            if path in sized and not least <= lists[path][index] <= most:
                reader.fail(
                    f"{path}[{index}]",
                    f"must be within the joint's limits {least:g}..{most:g}, got {lists[path][index]:g}",
                    "conflict",
                )
    if spec.gripper.min_m >= spec.gripper.max_m:
        words = f"must be > min_m ({spec.gripper.min_m:g}), got {spec.gripper.max_m:g}"
        reader.fail("gripper.max_m", words, "conflict")
    return settings


def _check_names(reader: Reader, path: str, names: Sequence[str]) -> None:
    """Joint names are names, and no two are the same."""
    for index, name in enumerate(names):
        if problem := name_problem(name):
            reader.fail(f"{path}[{index}]", problem, "out_of_range")
        elif name in names[:index]:
            reader.fail(f"{path}[{index}]", f"{name} is already joint {names.index(name)}", "duplicate_key")


def _check_places(reader: Reader, spec: RobotSpec) -> None:
    """Check that the chain fits the joints and the workspace is a box. The arm node checks that the poses lie in it."""
    count = len(spec.joints)
    if spec.chain is not None:
        modified = spec.chain.convention == MODIFIED
        wanted = count + 1 if modified else count
        for name in ("a_m", "d_m", "alpha_rad"):
            rows = len(getattr(spec.chain, name))
            if rows != wanted:
                expected = f"{wanted} values, one per joint{' and one for the flange' if modified else ''}"
                reader.fail(f"chain.{name}", f"expected {expected}, got {rows}", "wrong_length")
        for name, joint in spec.chain.points.items():
            if joint > count:
                words = f"must be a joint from 1 to {count}, got {joint}"
                reader.fail(f"chain.points.{name}", words, "out_of_range")
    for index, name in enumerate(spec.action_spaces or ()):
        if spec.chain is None and name in SPACES and SPACES[name].needs_chain:
            words = f"{name} needs `chain`: without link lengths the place of the tool is unknown"
            reader.fail(f"action_spaces[{index}]", words, "conflict")
    if spec.workspace is not None:
        if spec.chain is None:
            words = "needs `chain`: without link lengths the place of the arm is unknown"
            reader.fail("workspace", words, "conflict")
        box = spec.workspace
        for axis, least, most in zip("xyz", box.min_m, box.max_m, strict=True):
            if least >= most:
                words = f"{axis} must be > min_m ({least:g}), got {most:g}"
                reader.fail("workspace.max_m", words, "conflict")
