"""What a robot is, apart from its tasks: cameras, joints, limits, poses and drivers (`configs/robots/*.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rosa_contract.images import ENCODINGS
from rosa_contract.strict import Reader, read_yaml, setting


@dataclass(frozen=True)
class CameraSpec:
    """One camera and how its frames travel."""

    width: int = setting("px", at_least=1, at_most=4096)
    height: int = setting("px", at_least=1, at_most=4096)
    encoding: str = setting("on the wire", "jpeg", choices=ENCODINGS)
    quality: int = setting("JPEG quality", 90, at_least=1, at_most=100)
    rate_hz: float = setting("frames per second", 30.0, above=0, at_most=1000)


@dataclass(frozen=True)
class JointLimits:
    """Limits that every setpoint keeps, one value per joint."""

    position_min_rad: tuple[float, ...] = setting("least position, rad")
    position_max_rad: tuple[float, ...] = setting("greatest position, rad")
    velocity_rad_s: tuple[float, ...] = setting("rad/s", above=0)
    acceleration_rad_s2: tuple[float, ...] = setting("rad/s^2", above=0)
    jerk_rad_s3: tuple[float, ...] = setting("rad/s^3", above=0)


@dataclass(frozen=True)
class GripperSpec:
    """Opening between the fingers."""

    min_m: float = setting("closed, m", 0.0, at_least=0)
    max_m: float = setting("open, m", 0.08, above=0)


@dataclass(frozen=True)
class RobotSpec:
    """One kind of robot."""

    name: str = setting("kind of robot")
    joints: tuple[str, ...] = setting("joint names, in the order of every joint array")
    limits: JointLimits = setting("joint limits")
    cameras: Mapping[str, CameraSpec] = setting("cameras by name")
    home_rad: tuple[float, ...] = setting("where a task starts and a retry restarts, rad")
    safe_rad: tuple[float, ...] = setting("where return_to_safe_state goes, rad")
    gripper: GripperSpec = setting("gripper", GripperSpec)
    control_rate_hz: float = setting("setpoints per second", 100.0, at_least=10, at_most=2000)
    max_sensor_age_ms: float = setting("older frames and joint states stop the arm", 500.0, above=0)
    arm_driver: str = setting("arm driver", "mujoco")
    camera_driver: str = setting("camera driver", "mujoco")


def load_robot(path: str | Path) -> RobotSpec:
    """Load and check a robot file. Raises `ConfigError` listing every mistake in it."""
    reader = Reader(str(path))
    spec = reader.section(RobotSpec, "", read_yaml(path))
    reader.finish()
    assert isinstance(spec, RobotSpec)
    _check(reader, spec)
    reader.finish()
    return spec


def _check(reader: Reader, spec: RobotSpec) -> None:
    count = len(spec.joints)
    limits = spec.limits
    lists = {f"limits.{name}": getattr(limits, name) for name in JointLimits.__dataclass_fields__}
    lists |= {"home_rad": spec.home_rad, "safe_rad": spec.safe_rad}
    for path, values in lists.items():
        if len(values) != count:
            reader.fail(path, f"expected {count} values, one per joint, got {len(values)}")
    if reader.problems:
        return
    for index, (least, most) in enumerate(zip(limits.position_min_rad, limits.position_max_rad, strict=True)):
        if least >= most:
            reader.fail(
                f"limits.position_max_rad[{index}]", f"must be > position_min_rad ({least:g}), got {most:g}"
            )
        for path in ("home_rad", "safe_rad"):
            value = lists[path][index]
            if not least <= value <= most:
                reader.fail(
                    f"{path}[{index}]",
                    f"must be within the joint's limits {least:g}..{most:g}, got {value:g}",
                )
    if not spec.cameras:
        reader.fail("cameras", "needs at least one camera; the models see through them")
    if spec.gripper.min_m >= spec.gripper.max_m:
        reader.fail("gripper.max_m", f"must be > min_m ({spec.gripper.min_m:g}), got {spec.gripper.max_m:g}")
