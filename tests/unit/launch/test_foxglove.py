"""The Foxglove layout shows topics that a robot has, and fields that their messages have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
LAYOUT = json.loads((ROOT / "configs" / "foxglove" / "rosa.json").read_text())
MESSAGES = ROOT / "ros_ws" / "src" / "rosa_interfaces" / "msg"
# Topic in the robot's namespace -> its message; of other packages, the fields that are named.
OF_ROSA = {
    "robot_status": "RobotStatus",
    "arm_status": "ArmStatus",
    "operator_alert": "OperatorAlert",
    "calls": "Call",
    "decisions": "Decision",
}
OF_OTHERS = {"joint_states": {"position"}}


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


PATHS = sorted({text for text in texts(LAYOUT["configById"]) if text.startswith("/panda0/")})


def fields(message: str) -> dict[str, str]:
    """Field -> its type."""
    lines = (MESSAGES / f"{message}.msg").read_text().splitlines()
    rows = [line.split("#")[0].split() for line in lines]
    return {row[1]: row[0].removesuffix("[]") for row in rows if len(row) == 2 and "=" not in row[1]}


@pytest.mark.parametrize("path", PATHS)
def test_what_is_shown_exists(path: str) -> None:
    topic, _, rest = path.removeprefix("/panda0/").partition(".")
    topic, *filters = re.split(r"[{}]", topic)
    if topic.endswith("/image_raw/compressed"):
        cameras = (ROOT / "configs" / "robots" / "panda.yaml").read_text()
        assert f"\n  {topic.split('/')[0]}:\n" in cameras
        return
    sources = "\n".join(file.read_text() for file in (ROOT / "rosa_client" / "nodes").rglob("*.py"))
    assert re.search(rf'create_publisher\(\s*\w+,\s*"{topic}"', sources), f"nobody publishes {topic}"
    names = [re.sub(r"\[\d+\]", "", name) for name in rest.split(".") if name]
    if topic in OF_OTHERS:
        assert set(names) <= OF_OTHERS[topic]
        return
    message = OF_ROSA[topic]
    for key in (one.split("==")[0] for one in filters if one):
        assert key in fields(message)
    for name in names:
        known = fields(message)
        assert name in known, f"{message} has no {name}"
        message = known[name]


def test_every_panel_of_the_layout_is_configured_and_stands_in_it_once() -> None:
    def panels(node: Any) -> list[str]:
        return [node] if isinstance(node, str) else [*panels(node["first"]), *panels(node["second"])]

    shown = panels(LAYOUT["layout"])
    assert sorted(shown) == sorted(LAYOUT["configById"])
