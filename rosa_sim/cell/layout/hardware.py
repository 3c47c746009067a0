"""The simulated robot, from its robot file, and its cells, from `hardware/panda/*.yaml`."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.shipped import shipped

PICK_PLACE, SORT_PARTS = "pick_place", "sort_parts"
SCENE_FILES = {PICK_PLACE: "scene.yaml", SORT_PARTS: "sort_parts.yaml"}
GRIPPER_SPEED_M_S = 0.2  # of the simulated fingers
CONTROL_RATE_HZ = 100.0  # the arm driver's control loop, in the simulated cell


def hardware_dir() -> Path:
    """`hardware/panda` as shipped, or `$ROSA_HARDWARE_DIR/panda`."""
    root = os.environ.get("ROSA_HARDWARE_DIR", "")
    return (Path(root) if root else shipped("hardware")) / "panda"


@cache
def panda() -> RobotSpec:
    """`configs/robots/panda.yaml`: names, limits, poses, Denavit-Hartenberg parameters, gripper."""
    return load_robot(shipped("configs", "robots", "panda.yaml"))


@cache
def cell(scene: str = PICK_PLACE) -> dict[str, Any]:
    """A scene's file: table, mat, bins, blocks, cameras, lights. Raises `ValueError` for an unknown scene."""
    if scene not in SCENE_FILES:
        raise ValueError(f"unknown scene {scene!r}: known are {', '.join(SCENE_FILES)}")
    return _read(SCENE_FILES[scene])


def _read(name: str) -> dict[str, Any]:
    path = hardware_dir() / name
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: run from a checkout of ROSA, or set ROSA_HARDWARE_DIR to its hardware folder"
        )
    data: dict[str, Any] = yaml.safe_load(path.read_text())
    return data
