"""What a robot is, apart from its tasks: cameras, joints, limits, poses and drivers (`configs/robots/*.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rosa_contract.config.arms import NO_GRIPPER, check_fingers, check_grippers, moves_gripper, read_arm
from rosa_contract.config.body.chain import ChainSpec, chain_problems, modified
from rosa_contract.config.body.urdf import with_urdf
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
    """Limits of every setpoint, one value per joint."""

    position_min_rad: tuple[float, ...] = setting("minimum position, rad")
    position_max_rad: tuple[float, ...] = setting("maximum position, rad")
    velocity_rad_s: tuple[float, ...] = setting("maximum velocity, rad/s", above=0)
    acceleration_rad_s2: tuple[float, ...] = setting("maximum acceleration, rad/s^2", above=0)
    jerk_rad_s3: tuple[float, ...] = setting("maximum jerk, rad/s^3", above=0)

    @property
    def dof(self) -> int:
        """Number of joints."""
        return len(self.position_min_rad)


MAX_STOP_S = 10.0  # from full speed, as the limits allow: a robot that holds is to stand
OF_ONE_ARM = ("chain", "workspace", "gripper")


@dataclass(frozen=True)
class WorkspaceSpec:
    """A box in the base frame that the chain's points never leave."""

    min_m: tuple[float, ...] = setting("minimum x, y, z in the robot's base frame, m", length=3)
    max_m: tuple[float, ...] = setting("maximum x, y, z in the robot's base frame, m", length=3)


FINGERS = "fingers"
GRIPPER, FINGER = "gripper", "finger_joint"  # what the columns and the joints of a gripper are called


@dataclass(frozen=True)
class GripperSpec:
    """Width between the fingers. Without a gripper the width is 0 in every command and measurement."""

    min_m: float = setting("width when closed, m", 0.0, at_least=0)
    max_m: float = setting("width when open, m", 0.08, above=0)
    kind: str = setting(
        "fingers: a gripper that opens from `min_m` to `max_m`; none: no gripper, actions hold joints only",
        FINGERS,
        choices=(FINGERS, NO_GRIPPER),
    )

    @property
    def exists(self) -> bool:
        """Whether the robot has a gripper."""
        return self.kind != NO_GRIPPER


WITHOUT_GRIPPER = GripperSpec(0.0, 0.0, NO_GRIPPER)


@dataclass(frozen=True)
class ArmSpec:
    """One arm of a robot that has several."""

    joints: tuple[str, ...] = setting("names of the arm's joints: a contiguous part of `joints`")
    chain: ChainSpec | None = setting("kinematic chain of the arm; `mounted` is the pose of its base", None)
    workspace: WorkspaceSpec | None = setting(
        "box in the robot's base frame that the arm stays in; needs `chain`", None
    )
    gripper: GripperSpec = setting("gripper of the arm", GripperSpec)


@dataclass(frozen=True)
class Limb:
    """One arm, for the code that moves it. A robot has a single arm without a name, or those in `arms`."""

    name: str
    joints: slice  # which of the robot's joints are its own
    chain: ChainSpec | None
    workspace: WorkspaceSpec | None
    gripper: GripperSpec

    @property
    def count(self) -> int:
        """Number of its joints."""
        return int(self.joints.stop - self.joints.start)

    def called(self, what: str) -> str:
        """The name of this arm's part, such as left_gripper; `what` itself for an arm without a name."""
        return f"{self.name}_{what}" if self.name else what


@dataclass(frozen=True)
class RobotSpec:
    """One kind of robot."""

    name: str = setting("name of this kind of robot")
    joints: tuple[str, ...] = setting("joint names; all joint arrays use this order")
    limits: JointLimits = setting("joint limits, one value per joint")
    cameras: Mapping[str, CameraSpec] = setting("cameras by name")
    home_rad: tuple[float, ...] = setting("start pose of a task and of each retry, joint positions, rad")
    safe_rad: tuple[float, ...] = setting("pose for return_to_safe_state, joint positions, rad")
    clear_rad: tuple[float, ...] | None = setting(
        "high pose, clear of all obstacles, to which a retry moves first, joint positions, rad; default: safe_rad",
        None,
    )
    drop_rad: tuple[float, ...] | None = setting(
        "low pose above a free surface, where a retry puts down a held object, joint positions, rad; without it,"
        " a human is called if the gripper holds something",
        None,
    )
    chain: ChainSpec | None = setting(
        "kinematic chain; without it only joint limits are checked, not positions in space", None
    )
    workspace: WorkspaceSpec | None = setting("box that the arm stays in; needs `chain`", None)
    action_spaces: tuple[str, ...] | None = setting(
        "action spaces that the robot accepts besides joint positions; default: all, those of the tool only with"
        " `chain` (docs/bring_your_own.md)",
        None,
        choices=tuple(SPACES),
    )
    velocity_scale: float = setting(
        "factor on velocity, acceleration and jerk of every motion", 1.0, above=0, at_most=1
    )
    gripper: GripperSpec = setting("gripper", GripperSpec)
    arms: Mapping[str, ArmSpec] = setting(
        "for a robot with several arms, instead of `chain`, `workspace` and `gripper`: the arms by name, in joint"
        " order",
        dict,
    )
    control_rate_hz: float = setting("rate of setpoints", 100.0, at_least=10, at_most=2000)
    max_sensor_age_ms: float = setting(
        "maximum age of camera frames and joint states; the arm stops if the newest one is older",
        500.0,
        above=0,
    )
    arm_driver: str = setting("arm driver: a known name or `module:Class`; required", "")
    arm: Mapping[str, Any] = setting("settings of the arm driver", dict)
    camera_driver: str = setting("default camera driver: a known name, `module:Class` or `external`", "")
    extends: str = setting(
        "robot file to start from; this file then needs only the differences: a path relative to this file's"
        " folder, or rosa:panda.yaml for a shipped one. Mappings are merged, other values are replaced, and"
        " `null` removes a value; a different `arm_driver` also drops the inherited `arm`",
        "",
    )

    @cached_property
    def limbs(self) -> tuple[Limb, ...]:
        """Its arms, in the order of their joints."""
        if not self.arms:
            alone = slice(0, len(self.joints))
            return (Limb("", alone, self.chain, self.workspace, self.gripper),)
        found, first = [], 0
        for name, arm in self.arms.items():
            mine = slice(first, first + len(arm.joints))
            found.append(Limb(name, mine, arm.chain, arm.workspace, arm.gripper))
            first = mine.stop
        return tuple(found)

    @cached_property
    def grippers(self) -> Mapping[str, GripperSpec]:
        """Grippers by name, in the order of arrays of widths: `gripper`, or `left_gripper` for arm `left`."""
        return {limb.called(GRIPPER): limb.gripper for limb in self.limbs if limb.gripper.exists}

    @property
    def action_names(self) -> tuple[str, ...]:
        """The columns of an action: the joints, then the width of each gripper."""
        return (*self.joints, *self.grippers)

    @property
    def spaces(self) -> tuple[str, ...]:
        """The action spaces that it accepts besides joint positions."""
        linked = all(limb.chain is not None for limb in self.limbs)
        able = tuple(name for name, one in SPACES.items() if linked or not one.needs_chain)
        return able if self.action_spaces is None else self.action_spaces

    @property
    def finger_joints(self) -> tuple[str, ...]:
        """The finger joints in which the arm node publishes the width: two per gripper, half the width each."""
        fingers = [limb.called(FINGER) for limb in self.limbs if limb.gripper.exists]
        return tuple(f"{self.name}_{finger}{i}" for finger in fingers for i in (1, 2))

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
    """The hello message of a robot of this kind."""
    cameras = {
        name: CameraInfo(height=c.height, width=c.width, encoding=c.encoding)
        for name, c in robot.cameras.items()
    }
    state = {"joint_position": len(robot.joints)}
    if robot.grippers:
        state["gripper_width"] = len(robot.grippers)
    return Hello(robot_id, task, cameras, state, actions=robot.spaces)


def load_robot(path: str | Path) -> RobotSpec:
    """Load and check a robot file and those that it extends. Raises `ConfigError` with every mistake in them.

    For a robot without a gripper it is enough to set `gripper.kind` or `arm.gripper.kind` to none; both are then none.
    """
    document, origins = read_extended(path)
    try:
        return _robot(with_urdf(document, Path(path), origins), str(path))
    except ConfigError as error:
        raise named(error, str(path), origins) from None


def robot_from(document: Any, source: str) -> RobotSpec:
    """A `RobotSpec` from parsed YAML, which cannot extend a file."""
    if isinstance(document, dict) and EXTENDS in document:
        words = "only a robot file can extend another one: plain values have no folder to start from"
        raise ConfigError(source, [ConfigProblem(EXTENDS, "conflict", words)])
    return _robot(document, source)


def _robot(document: Any, source: str) -> RobotSpec:
    reader = Reader(source)
    if problem := mistaken(document, ROBOT):
        reader.fail("", problem, "wrong_type")
        reader.finish()
    spec = reader.section(RobotSpec, "", document)
    if spec is None:
        reader.finish()
    assert isinstance(spec, RobotSpec)
    for key in OF_ONE_ARM if spec.arms else ():
        if key in document:
            reader.fail(key, f"is set for each arm, in `arms`; remove `{key}` here", "conflict")
    settings = _check(reader, spec)
    reader.finish()  # what is asked of a whole robot, such as where its poses are, has no answer before
    if spec.arms:
        arms = {name: replace(arm, chain=modified(arm.chain)) for name, arm in spec.arms.items()}
        return replace(spec, arms=arms, gripper=WITHOUT_GRIPPER)
    spec = replace(spec, chain=modified(spec.chain))
    return spec if spec.gripper.exists and moves_gripper(settings) else _without_gripper(spec, settings)


def _without_gripper(spec: RobotSpec, settings: Any) -> RobotSpec:
    """No gripper in the robot or in the driver's settings, whichever of them said so."""
    arm = dict(spec.arm)
    if hasattr(settings, "gripper"):
        arm["gripper"] = {**arm.get("gripper", {}), "kind": NO_GRIPPER}
    return replace(spec, gripper=WITHOUT_GRIPPER, arm=arm)


def _check(reader: Reader, spec: RobotSpec) -> Any:
    """Report values that contradict one another; returns the settings of the arm driver."""
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
    check_fingers(reader, settings, spec.joints)
    if not spec.arms and getattr(settings, "grippers", None):
        reader.fail(
            "arm.grippers", "is only for a robot with several `arms`; expected `arm.gripper`", "conflict"
        )
    # What has another length is named above; of the rest every mistake is told in the same round.
    sized = {path for path, values in lists.items() if len(values) == count}
    ranged = {"limits.position_min_rad", "limits.position_max_rad"} <= sized
    ends = (limits.position_min_rad, limits.position_max_rad) if ranged else ((), ())
    for index, (lowest, highest) in enumerate(zip(*ends, strict=True)):
        if lowest >= highest:
            words = f"must be > position_min_rad ({lowest:g}), got {highest:g}"
            reader.fail(f"limits.position_max_rad[{index}]", words, "conflict")
        for path in poses:
            if path in sized and not lowest <= lists[path][index] <= highest:
                reader.fail(
                    f"{path}[{index}]",
                    f"must be within the joint's limits {lowest:g}..{highest:g}, got {lists[path][index]:g}",
                    "conflict",
                )
    motion = (limits.velocity_rad_s, limits.acceleration_rad_s2, limits.jerk_rad_s3)
    for index, (fastest, acceleration, jerk) in enumerate(zip(*motion, strict=False)):
        if (stop_s := fastest / acceleration + acceleration / jerk) > MAX_STOP_S:
            words = (
                f"joint {index + 1} would take {stop_s:.3g} s to stop from {fastest:g} rad/s with"
                f" {acceleration:g} rad/s^2 and {jerk:g} rad/s^3, expected at most {MAX_STOP_S:g} s"
            )
            reader.fail("limits", words, "conflict")
    grippers = {"gripper": spec.gripper}
    grippers |= {f"arms.{name}.gripper": arm.gripper for name, arm in spec.arms.items()}
    for path, gripper in grippers.items():
        if gripper.min_m >= gripper.max_m:
            words = f"must be > min_m ({gripper.min_m:g}), got {gripper.max_m:g}"
            reader.fail(f"{path}.max_m", words, "conflict")
    for index, name in enumerate(spec.joints if spec.grippers and moves_gripper(settings) else ()):
        if FINGER in name:  # its position would be counted as a part of a gripper's width
            words = f"{name} is named like a gripper's finger joint; describe the gripper in `gripper`, not in `joints`"
            reader.fail(f"joints[{index}]", words, "conflict")
    if spec.arms:
        have = {name: arm.gripper.exists for name, arm in spec.arms.items()}
        check_grippers(reader, spec.arm_driver, settings, have)
    return settings


def _check_names(reader: Reader, path: str, names: Sequence[str]) -> None:
    """Report invalid and duplicate joint names."""
    for index, name in enumerate(names):
        if problem := name_problem(name):
            reader.fail(f"{path}[{index}]", problem, "out_of_range")
        elif name in names[:index]:
            reader.fail(f"{path}[{index}]", f"{name} is already joint {names.index(name)}", "duplicate_key")


def _check_places(reader: Reader, spec: RobotSpec) -> None:
    """Check that chains fit the joints and workspaces are boxes. The arm node checks that poses lie in them."""
    _check_arms(reader, spec)
    for limb in spec.limbs:
        path = f"arms.{limb.name}." if limb.name else ""
        if limb.chain is not None:
            for where, words, cause in chain_problems(limb.chain, limb.count):
                reader.fail(f"{path}chain{where}", words, cause)
        if limb.workspace is None:
            continue
        if limb.chain is None:
            words = "needs `chain`: without it the arm's position in space is unknown"
            reader.fail(f"{path}workspace", words, "conflict")
        box = limb.workspace
        for axis, lowest, highest in zip("xyz", box.min_m, box.max_m, strict=True):
            if lowest >= highest:
                words = f"{axis} must be > min_m ({lowest:g}), got {highest:g}"
                reader.fail(f"{path}workspace.max_m", words, "conflict")
    linked = all(limb.chain is not None for limb in spec.limbs)
    for index, name in enumerate(spec.action_spaces or ()):
        if not linked and name in SPACES and SPACES[name].needs_chain:
            words = f"{name} needs `chain`: without it the tool pose is unknown"
            reader.fail(f"action_spaces[{index}]", words, "conflict")


def _check_arms(reader: Reader, spec: RobotSpec) -> None:
    """Check that the arms' joints, one arm after another, are those of the robot."""
    for name, arm in spec.arms.items():
        if problem := name_problem(name):
            reader.fail(f"arms.{name}", problem, "out_of_range")
        if other := next((one for one in spec.arms if name.endswith(one) and name != one), ""):
            # Their fingers are told apart by the arm's name in the joints' names.
            words = f"expected a name that does not end with that of arm {other}"
            reader.fail(f"arms.{name}", words, "conflict")
        if not arm.joints:
            reader.fail(f"arms.{name}.joints", "is empty; expected the names of its joints", "missing")
    named = tuple(joint for arm in spec.arms.values() for joint in arm.joints)
    if spec.arms and named != spec.joints:
        first = next(
            (i for i, (a, b) in enumerate(zip(named, spec.joints, strict=False)) if a != b),
            min(len(named), len(spec.joints)),
        )
        has, wants = ((one[first] if first < len(one) else "none") for one in (named, spec.joints))
        words = f"expected the arms' joints in the order of `joints`: joint {first + 1} is {wants}, got {has}"
        reader.fail("arms", words, "conflict")
