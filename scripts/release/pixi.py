"""`pixi.toml`, made from `package.xml`: ROS 2, RViz and Python from RoboStack, without root. `make docs` writes it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHANNELS = "https://prefix.dev"
DISTRIBUTIONS = ("jazzy", "kilted", "lyrical")  # the first is the default environment
OF_THE_WORKSPACE = {"rosa_interfaces"}  # built there
PATHS, PACKAGES = ". ros_ws/src ros_ws/rviz", "rosa_interfaces rosa_client rosa_rviz"
# rosdep keys that are no ROS packages, by their names in conda-forge.
CONDA = {
    "python3-msgpack": "msgpack-python",
    "python3-numpy": "numpy",
    "python3-opencv": "py-opencv",
    "python3-pytest": "pytest",
    "python3-yaml": "pyyaml",
    "python3-zmq": "pyzmq",
}
# What colcon builds the interfaces and RViz's panel with.
BUILD = ("c-compiler", "cmake", "colcon-common-extensions", "cxx-compiler", "ninja", "pkg-config")
BUILD_ROS = ("ament_cmake", "pluginlib", "rclcpp", "rosidl_default_generators", "rviz_common")


def declared() -> list[str]:
    """The names in package.xml, in its order."""
    package = ET.parse(ROOT / "package.xml").getroot()
    names = [str(entry.text) for entry in package if entry.tag.endswith("depend")]
    return [name for name in dict.fromkeys(names) if name not in OF_THE_WORKSPACE]


def ros_name(distribution: str, name: str) -> str:
    return f"ros-{distribution}-{name.replace('_', '-')}"


def text() -> str:
    package = ET.parse(ROOT / "package.xml").getroot()
    names = declared()
    others = sorted([*(CONDA[name] for name in names if name in CONDA), *BUILD])
    ros = sorted({*(name for name in names if name not in CONDA), *BUILD_ROS})
    lines = [
        "# Made from package.xml by `make docs`. It was never run: RoboStack's channels were not within reach.",
        "#   pixi run build && pixi run ros2 launch rosa_client pick_place.launch.py gateway:=tcp://gpu-box:5570",
        "[workspace]",
        'name = "rosa"',
        f'version = "{package.findtext("version")}"',
        f'channels = ["{CHANNELS}/conda-forge"]',
        'platforms = ["linux-64", "linux-aarch64"]',
        "",
        "[dependencies]",
        *(f'{name} = "*"' for name in others),
        "",
        "[activation]",
        'scripts = ["install/setup.sh"]',
        "",
        "[tasks]",
        f'build = "colcon build --merge-install --base-paths {PATHS} --packages-select {PACKAGES}"',
    ]
    for distribution in DISTRIBUTIONS:
        lines += [
            "",
            f"[feature.{distribution}]",
            f'channels = ["{CHANNELS}/robostack-{distribution}"]',
            f"[feature.{distribution}.dependencies]",
            *(f'{ros_name(distribution, name)} = "*"' for name in ros),
        ]
    environments = [f'default = ["{DISTRIBUTIONS[0]}"]', *(f'{one} = ["{one}"]' for one in DISTRIBUTIONS[1:])]
    return "\n".join([*lines, "", "[environments]", *environments, ""])
