"""Elements of MJCF, MuJoCo's model format: boxes, cameras, numbers."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

SEEN_ONLY = {"contype": "0", "conaffinity": "0", "mass": "0.01"}  # a geom that touches nothing


def look_at(position: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Camera axes at `position` (3,) looking at `target` (3,): rotation (3, 3) with columns right, up, backwards."""
    backwards = (position - target) / np.linalg.norm(position - target)
    hint = np.array([0.0, 0.0, 1.0]) if abs(backwards[2]) < 0.95 else np.array([1.0, 0.0, 0.0])
    right = np.cross(hint, backwards)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(backwards, right), backwards], axis=1)


def camera(name: str, pose: dict[str, Any]) -> ET.Element:
    """A camera with the `position`, `look_at` and `fovy_deg` of `pose`."""
    position = np.array(pose["position"])
    axes = look_at(position, np.array(pose["look_at"]))
    xyaxes = numbers(np.concatenate([axes[:, 0], axes[:, 1]]))
    return ET.Element("camera", name=name, pos=numbers(position), xyaxes=xyaxes, fovy=str(pose["fovy_deg"]))


def box(name: str, at: Any, half: Any, **more: str) -> ET.Element:
    """A box geom at `at` `(3,)` with half sizes `half` `(3,)`, m."""
    return ET.Element(
        "geom", {"name": name, "type": "box", "pos": numbers(at), "size": numbers(half), **more}
    )


def numbers(values: Any) -> str:
    """Numbers as an attribute of MJCF."""
    return " ".join(f"{float(value):.6g}" for value in values)


def part(root: ET.Element, path: str) -> ET.Element:
    """The element at `path`. Raises `ValueError` when a wheel's file does not have it."""
    found = root.find(path)
    if found is None:
        raise ValueError(f"MJCF of dm-robotics-panda has no <{path}>: expected version 0.4.8")
    return found
