"""What the robot's code imports of ROS 2 is declared in package.xml, so that `rosdep install` brings it."""

from __future__ import annotations

import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROS = re.compile(
    r"^\s*(?:from|import) (\w+_(?:msgs|srvs|interfaces)|rclpy|ament_index_python|launch|launch_ros)\b", re.M
)
# In no ROS distribution: it comes with franka_ros2, which one builds from source (docs/franka.md).
BESIDE = {"franka_msgs"}
# Started, not imported.
STARTED = {"robot_state_publisher", "ros2bag", "ros2launch", "rosbag2_storage_mcap", "rviz2", "xacro"}


def declared() -> set[str]:
    package = ET.parse(ROOT / "package.xml").getroot()
    return {str(entry.text) for entry in package if entry.tag.endswith("depend")}


def test_every_package_that_is_imported_or_started_is_declared() -> None:
    sources = [*(ROOT / "rosa_client").rglob("*.py"), *(ROOT / "launch").glob("*.py")]
    imported = {name for path in sources for name in ROS.findall(path.read_text())}
    assert {"rclpy", "sensor_msgs", "launch_ros", "tf2_msgs"} <= imported
    assert imported - BESIDE - declared() == set()
    assert declared() >= STARTED


def test_pixi_brings_what_is_declared_for_each_distribution() -> None:
    """That it is fresh is tested with the generated pages."""
    made = tomllib.loads((ROOT / "pixi.toml").read_text())
    ours = {name for name in declared() if not name.startswith("python3-")} - {"rosa_interfaces"}
    assert len(made["feature"]) == 3
    for distribution, feature in made["feature"].items():
        brought = set(feature["dependencies"])
        assert {f"ros-{distribution}-{name.replace('_', '-')}" for name in ours} <= brought
        assert feature["channels"] == [f"https://prefix.dev/robostack-{distribution}"]
    assert {"numpy", "pyzmq", "msgpack-python", "pyyaml", "py-opencv"} <= set(made["dependencies"])
    known = {feature for features in made["environments"].values() for feature in features}
    assert known == set(made["feature"])
