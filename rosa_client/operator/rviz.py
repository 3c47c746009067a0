"""An RViz 2 configuration for operators of any fleet: markers, cameras, robot models, transforms.

    python -m rosa_client.operator.rviz panda0 panda1 > configs/rviz/operator.rviz

The launch file writes one for the robots it starts. Class and property names: ros2/rviz, branch rolling.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

PLUGINS = "rviz_default_plugins"
CAMERAS = {"front": "front/image_raw", "wrist": "wrist/image_raw"}


def rviz_config(namespaces: Sequence[str], cameras: Mapping[str, str] = CAMERAS, frame: str = "world") -> str:
    """The text of a .rviz file that shows these robots and the panel of `operator_node`, all in `frame`.

    `cameras`: name -> topic of its uncompressed pictures, without a leading slash below the robot's namespace.
    """
    names = [namespace.strip("/") for namespace in namespaces]
    middle_m = 0.8 * max(0, len(names) - 1)
    tools: list[dict[str, Any]] = [
        {"Class": f"{PLUGINS}/{tool}"} for tool in ("Interact", "MoveCamera", "Select", "FocusCamera")
    ]
    tools[0]["Hide Inactive Objects"] = False
    view = {
        "Class": f"{PLUGINS}/Orbit",
        "Name": "Current View",
        "Distance": 4.5 + 1.2 * len(names),
        "Focal Point": {"X": 0, "Y": middle_m, "Z": 1.0},
        "Near Clip Distance": 0.01,
        "Pitch": 0.3,
        "Target Frame": "<Fixed Frame>",
        "Value": "Orbit (rviz)",
        "Yaw": 0.2,
    }
    document = {
        "Panels": [
            {"Class": "rviz_common/Displays", "Name": "Displays"},
            {"Class": "rviz_common/Views", "Name": "Views"},
        ],
        "Visualization Manager": {
            "Class": "",
            "Displays": [
                *_shared(),
                *(_robot(name, cameras) for name in names),
            ],
            "Enabled": True,
            "Global Options": {"Background Color": "48; 48; 48", "Fixed Frame": frame, "Frame Rate": 30},
            "Name": "root",
            "Tools": tools,
            "Value": True,
            "Views": {"Current": view, "Saved": None},
        },
        "Window Geometry": {"Height": 1000, "Width": 1600, "X": 40, "Y": 40},
    }
    return yaml.safe_dump(document, sort_keys=False, width=120)


def _shared() -> list[dict[str, Any]]:
    """Displays for the whole cell: the floor, the transforms, and the panel's two displays."""
    return [
        _display("Grid", "Floor", {"Cell Size": 0.5, "Plane": "XY", "Plane Cell Count": 20, "Alpha": 0.4}),
        _display(
            "TF", "Frames", {"Show Names": False, "Show Arrows": False, "Marker Scale": 0.3}, shown=False
        ),
        _display(
            "InteractiveMarkers",
            "Operator",
            # RViz's descriptions would cover the text of the boards.
            {"Interactive Markers Namespace": "/operator", "Show Descriptions": False, "Show Axes": False},
        ),
        _display(
            "MarkerArray",
            "State",
            {"Namespaces": {}, "Topic": _topic("/operator/markers", late=True, depth=10)},
        ),
    ]


def _robot(name: str, cameras: Mapping[str, str]) -> dict[str, Any]:
    """One robot: its model and its cameras."""
    model = {
        "Description Source": "Topic",
        "Description Topic": _topic(f"/{name}/robot_description", late=True),
        "TF Prefix": name,
        "Visual Enabled": True,
        "Collision Enabled": False,
        "Update Interval": 0,
        "Alpha": 1,
    }
    pictures = [
        _display(
            "Image",
            f"{name} {camera}",
            {
                "Normalize Range": True,
                "Topic": _topic(topic if topic.startswith("/") else f"/{name}/{topic}", reliable=False),
            },
        )
        for camera, topic in cameras.items()
    ]
    displays = [_display("RobotModel", f"{name} model", model), *pictures]
    return {"Class": "rviz_common/Group", "Name": name, "Enabled": True, "Displays": displays}


def _display(kind: str, name: str, properties: dict[str, Any], shown: bool = True) -> dict[str, Any]:
    return {"Class": f"{PLUGINS}/{kind}", "Name": name, "Enabled": shown, **properties, "Value": shown}


def _topic(name: str, late: bool = False, reliable: bool = True, depth: int = 1) -> dict[str, Any]:
    """`late`: messages from before RViz started are shown too."""
    return {
        "Depth": depth,
        "Durability Policy": "Transient Local" if late else "Volatile",
        "History Policy": "Keep Last",
        "Reliability Policy": "Reliable" if reliable else "Best Effort",
        "Value": name,
    }


if __name__ == "__main__":
    print(rviz_config(sys.argv[1:] or ["panda0"]), end="")
