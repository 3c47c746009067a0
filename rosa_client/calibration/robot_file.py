"""Writes a camera's `intrinsics` or `pose` into a robot file; every other character, comments too, stays as it was."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np
import yaml

from rosa_client.calibration.board import Array
from rosa_client.calibration.errors import CalibrationError
from rosa_contract.config.cameras import CameraPose, Intrinsics
from rosa_contract.config.documents import EXTENDS
from rosa_contract.config.robot import load_robot
from rosa_contract.errors import ConfigError

Value = float | str | Sequence[float]


def intrinsics_mapping(lens: Intrinsics) -> dict[str, Value]:
    """As the robot file has it."""
    values = {key: round(getattr(lens, key), 3) for key in ("fx", "fy", "cx", "cy")}
    return {**values, "distortion": [round(value, 6) for value in lens.distortion]}


def pose_of(parent: str, mount: Array) -> CameraPose:
    """`mount` (4, 4): the camera's optical frame in `parent`."""
    return CameraPose(parent, tuple(float(value) for value in mount[:3, 3]), quaternion_of(mount[:3, :3]))


def pose_mapping(pose: CameraPose) -> dict[str, Value]:
    """As the robot file has it: places to 0.01 mm, turns to about 0.0001 degrees."""
    return {
        "parent": pose.parent,
        "xyz_m": [round(value, 5) for value in pose.xyz_m],
        "quaternion_xyzw": [round(value, 6) for value in pose.quaternion],
    }


def quaternion_of(turn: Array) -> tuple[float, float, float, float]:
    """Unit quaternion x, y, z, w of a rotation (3, 3)."""
    axis = np.asarray(cv2.Rodrigues(turn)[0], np.float64).ravel()
    angle = float(np.linalg.norm(axis))
    x, y, z = axis * (np.sin(angle / 2) / angle if angle > 1e-12 else 0.5)
    return float(x), float(y), float(z), float(np.cos(angle / 2))


def with_value(text: str, camera: str, key: str, value: Mapping[str, Value]) -> str:
    """The text of a robot file with `cameras.<camera>.<key>` set. Raises `CalibrationError`."""
    root = yaml.compose(text)
    inline = yaml.safe_dump(dict(value), default_flow_style=True, sort_keys=False, width=10_000).strip()
    if _has(root, EXTENDS) and not _has(root, "cameras"):  # the camera stands in the file below
        return f"{text.rstrip()}\ncameras:\n  {camera}:\n    {key}: {inline}\n"
    cameras = _child(root, "cameras")[1]
    if _has(root, EXTENDS) and not _has(cameras, camera):
        return _inserted(text, cameras, camera, f"{{{key}: {inline}}}")
    node = _child(cameras, camera)[1]
    try:
        old_key, old_value = _child(node, key)
    except CalibrationError:
        return _inserted(text, node, key, inline)
    start, end = old_value.start_mark.index, old_value.end_mark.index
    if old_value.flow_style:
        return text[:start] + inline + text[end:]
    # A block goes from the line after its key to its last line that is neither empty nor a comment.
    start = old_key.end_mark.index + 1
    last = max(one.end_mark.index for pair in old_value.value for one in _leaves(pair[1]))
    return f"{text[:start]} {inline}{text[last:]}"


def write_value(path: Path, camera: str, key: str, value: Mapping[str, Value]) -> None:
    """Replace the robot file at once, or not at all. Raises `CalibrationError`."""
    try:
        text = path.read_text()
        changed = with_value(text, camera, key, value)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(changed)
            os.chmod(name, path.stat().st_mode & 0o777)
            load_robot(name)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except ConfigError as error:
        words = "; ".join(str(problem) for problem in error.problems)
        raise CalibrationError("not_written", f"{path} would not be valid: {words}") from None
    except OSError as error:
        raise CalibrationError("not_written", f"{path}: {error.strerror or error}") from None


def _inserted(text: str, node: yaml.MappingNode, key: str, inline: str) -> str:
    last = max(one.end_mark.index for pair in node.value for one in _leaves(pair[1]))
    if node.flow_style:
        return f"{text[:last]}, {key}: {inline}{text[last:]}"
    indent = " " * node.value[0][0].start_mark.column
    end = text.find("\n", last)  # behind a comment on the same line
    end = len(text) if end < 0 else end
    return f"{text[:end]}\n{indent}{key}: {inline}{text[end:]}"


def _leaves(node: yaml.Node) -> list[yaml.Node]:
    """The nodes whose ends are real ends: PyYAML ends a block where the next one begins."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return [leaf for pair in node.value for leaf in _leaves(pair[1])]
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return [leaf for one in node.value for leaf in _leaves(one)]
    return [node]


def _has(node: yaml.Node | None, key: str) -> bool:
    return isinstance(node, yaml.MappingNode) and any(name.value == key for name, _ in node.value)


def _child(node: yaml.Node | None, key: str) -> tuple[yaml.Node, yaml.MappingNode]:
    """The key's and the value's node."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key and isinstance(value, yaml.MappingNode):
                return name, value
        known = ", ".join(str(name.value) for name, _ in node.value)
        raise CalibrationError("not_written", f"the robot file has no {key!r} here; it has {known}")
    raise CalibrationError("not_written", f"the robot file has no mapping around {key!r}")
