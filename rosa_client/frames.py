"""Names of frames in TF, and which static transforms a robot has. Pure.

Several robots share one TF tree, so every frame of a robot begins with its namespace, as robot_state_publisher's
`frame_prefix` does: `panda0/panda_link0`, `panda0/front_optical_frame`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass

from rosa_client.operator.layout import Base
from rosa_contract.config.cameras import quaternion_of
from rosa_contract.config.robot import RobotSpec
from rosa_contract.errors import ConfigError

WORLD = "world"


@dataclass(frozen=True)
class StaticTransform:
    """Where `child` is in `parent`: position x, y, z in m and orientation as a unit quaternion x, y, z, w."""

    parent: str
    child: str
    xyz_m: tuple[float, ...]
    quaternion_xyzw: tuple[float, float, float, float]


def prefix_of(namespace: str) -> str:
    """What comes before every frame of the robot in `namespace`; empty without a namespace."""
    name = namespace.strip("/")
    return f"{name}/" if name else ""


def optical_frame(namespace: str, camera: str) -> str:
    """`frame_id` of a camera's pictures: x right, y down, z into the picture (REP 103)."""
    return f"{prefix_of(namespace)}{camera}_optical_frame"


def links_of(urdf: str) -> list[str]:
    """The links of a robot description, its base first. Raises `ConfigError` unless it is a tree of links."""
    try:
        root = ET.fromstring(urdf)
    except ET.ParseError as error:
        raise ConfigError("robot description", [f"not XML: {error}"]) from None
    links = [link.get("name", "") for link in root.iter("link")]
    children = {child.get("link", "") for child in root.findall("./joint/child")}
    bases = [link for link in links if link not in children]
    if len(bases) != 1:
        raise ConfigError("robot description", [f"expected one link without a parent, got {bases}"])
    return [*bases, *(link for link in links if link in children)]


def static_transforms(
    namespace: str, spec: RobotSpec, base: Base | None, prefix: str
) -> list[StaticTransform]:
    """The world to the robot's base, when its place is known, and each camera with a pose on its link.

    `prefix`: what comes before the names of the robot's links in TF.
    """
    found = []
    if base is not None:
        turn = quaternion_of(0.0, 0.0, base.yaw_rad)
        place = (base.x_m, base.y_m, base.z_m)
        found.append(StaticTransform(WORLD, f"{prefix}{spec.name}_link0", place, turn))
    for name, camera in spec.cameras.items():
        if (pose := camera.pose) is not None:
            child = optical_frame(namespace, name)
            found.append(StaticTransform(f"{prefix}{pose.parent}", child, pose.xyz_m, pose.quaternion))
    return found


def without_pose(spec: RobotSpec) -> list[str]:
    """Cameras whose pictures are in a frame that TF does not know."""
    return [name for name, camera in spec.cameras.items() if camera.pose is None]
