"""The RViz configuration: made for any fleet, and every topic it names is published by these nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from rosa_client.operator.rviz import rviz_config
from rosa_contract.config.robot import load_robot

ROOT = Path(__file__).parents[4]
SHIPPED = ROOT / "configs" / "rviz" / "operator.rviz"
# ros2/rviz, rviz_default_plugins/plugins_description.xml
KNOWN = {"Grid", "TF", "InteractiveMarkers", "MarkerArray", "RobotModel", "Image", "Orbit"}
TOOLS = {"Interact", "MoveCamera", "Select", "FocusCamera"}


def displays(names: list[str]) -> list[dict[str, Any]]:
    """All displays, those in groups too."""
    document = yaml.safe_load(rviz_config(names))
    top = document["Visualization Manager"]["Displays"]
    return [one for display in top for one in (display, *display.get("Displays", []))]


def test_the_shipped_file_is_made_from_two_robots() -> None:
    text = rviz_config(["panda0", "panda1"])
    assert SHIPPED.read_text() == text, "python -m rosa_client.operator.rviz panda0 panda1"


def test_every_class_exists_in_rviz() -> None:
    classes = re.findall(r"Class: (\S+)", SHIPPED.read_text())
    found = {name.partition("/")[2] for name in classes if name.startswith("rviz_default_plugins/")}
    assert found == KNOWN | TOOLS
    rest = {name for name in classes if not name.startswith("rviz_default_plugins/")}
    assert rest == {"rviz_common/Displays", "rviz_common/Views", "rviz_common/Group", "''"}


def test_each_robot_has_its_model_and_its_cameras() -> None:
    spec = load_robot(ROOT / "configs" / "robots" / "panda.yaml")
    shown = displays(["/left", "right/"])
    topics = {one["Topic"]["Value"] for one in shown if one["Class"].endswith("/Image")}
    assert topics == {f"/{name}/{camera}/image_raw" for name in ("left", "right") for camera in spec.cameras}
    models = {one["TF Prefix"]: one["Description Topic"]["Value"] for one in shown if "TF Prefix" in one}
    assert models == {"left": "/left/robot_description", "right": "/right/robot_description"}


def test_pictures_are_read_as_they_are_sent_and_late_comers_see_markers() -> None:
    shown = displays(["panda0"])
    for one in shown:
        if one["Class"].endswith("/Image"):
            assert one["Topic"]["Reliability Policy"] == "Best Effort", "cameras publish sensor data"
    (state,) = [one for one in shown if one["Class"].endswith("/MarkerArray")]
    assert state["Topic"]["Durability Policy"] == "Transient Local"
    (operator,) = [one for one in shown if one["Class"].endswith("/InteractiveMarkers")]
    assert operator["Interactive Markers Namespace"] == "/operator"
