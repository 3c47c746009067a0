"""The robot's description (URDF), and the node that makes it and TF known: ROS's own robot_state_publisher.

In this order: the file that is given; franka_description's, which has meshes, where it and `xacro` are installed and
its links have our names; ROSA's own in `hardware/`, which has simple shapes.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_prefix

from rosa_client.bringup.graph import EXTERNAL, NodeSpec, Robot
from rosa_client.bringup.supervisor import BringupError
from rosa_client.frames import links_of, prefix_of
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.errors import ConfigError
from rosa_contract.shipped import shipped

PUBLISHER = "robot_state_publisher"
FRANKA = "franka_description"
# Kind of robot -> where franka_description has had it, below its share folder.
FRANKA_FILES = {
    "panda": ("robots/panda/panda.urdf.xacro", "robots/panda_arm.urdf.xacro"),
    "fr3": ("robots/fr3/fr3.urdf.xacro",),
}
XACRO_WITHIN_S = 20.0


class DescriptionError(BringupError):
    """The robot's description cannot be used; the text says why."""


def description_nodes(robot: Robot) -> list[NodeSpec]:
    """robot_state_publisher for this robot, unless it is not installed or another launch does its work."""
    if robot.description == EXTERNAL or prefix(PUBLISHER) is None:
        return []
    urdf = description_of(robot, load_robot(robot.robot))
    if not urdf:
        return []
    values = {
        "robot_description": urdf,
        "frame_prefix": prefix_of(robot.namespace),
        "use_sim_time": robot.use_sim_time,
    }
    namespace = "/" + robot.namespace.strip("/")
    return [NodeSpec(PUBLISHER, PUBLISHER, namespace, values, package=PUBLISHER)]


def description_note(robot: Robot) -> str:
    """Why this robot has no description and no TF of its joints; empty when it has."""
    if robot.description == EXTERNAL:
        return ""
    if prefix(PUBLISHER) is None:
        return (
            f"{robot.namespace}: {PUBLISHER} is not installed, so there is no robot_description, and TF has the"
            f" cameras but not the joints (apt install ros-$ROS_DISTRO-robot-state-publisher)"
        )
    kind = load_robot(robot.robot).name
    if not description_of(robot, load_robot(robot.robot)):
        return (
            f"{robot.namespace}: no robot description: hardware/{kind}/{kind}.urdf does not exist; give one as"
            " description:=FILE"
        )
    return ""


def check_description(robot: Robot) -> None:
    """Raise `DescriptionError` for a description that cannot be read, or that lacks a link which a camera is on."""
    spec = load_robot(robot.robot)
    urdf = description_of(robot, spec)
    if not urdf:
        return
    try:
        links = links_of(urdf)
    except ConfigError as error:
        raise DescriptionError(f"description: {error}") from None
    for name, camera in spec.cameras.items():
        if camera.pose is not None and camera.pose.parent not in links:
            words = f"no link {camera.pose.parent!r} in the robot description; it has {', '.join(links)}"
            raise DescriptionError(f"robot: cameras.{name}.pose.parent: {words}")


def description_of(robot: Robot, spec: RobotSpec) -> str:
    """The URDF's text; empty when there is none, or another launch has it. Raises `DescriptionError`."""
    if robot.description == EXTERNAL:
        return ""
    if robot.description:
        return _read(Path(robot.description))
    return _franka(spec.name) or _own(spec.name)


def _own(kind: str) -> str:
    path = shipped("hardware", kind, f"{kind}.urdf")
    return path.read_text() if path.is_file() else ""


def _franka(kind: str) -> str:
    """franka_description's text, if its links have our names."""
    found = prefix(FRANKA)
    if found is None or shutil.which("xacro") is None:
        return ""
    for name in FRANKA_FILES.get(kind, ()):
        path = found / "share" / FRANKA / name
        if path.is_file():
            text = _xacro(path, "hand:=true")
            return text if {f"{kind}_link0", f"{kind}_hand"} <= set(links_of(text)) else ""
    return ""


def _read(path: Path) -> str:
    if path.suffix == ".xacro":
        return _xacro(path)
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DescriptionError(f"description: {path}: {error}") from None


def _xacro(path: Path, *arguments: str) -> str:
    try:
        made = subprocess.run(
            ["xacro", str(path), *arguments], capture_output=True, text=True, timeout=XACRO_WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DescriptionError(f"description: {path} needs xacro: {error}") from None
    if made.returncode != 0:
        raise DescriptionError(f"description: xacro {path}: {made.stderr.strip()}")
    return made.stdout


def prefix(package: str) -> Path | None:
    """Where a package of ROS 2 is installed; None when it is not, or no ROS 2 is sourced."""
    try:
        return Path(get_package_prefix(package))
    except (PackageNotFoundError, OSError):
        return None
