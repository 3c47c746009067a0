"""The simulated robot, from its robot file, and its cells, from `hardware/panda/*.yaml`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.shipped import shipped

PICK_PLACE, SORT_PARTS = "pick_place", "sort_parts"
SCENE_FILES = {PICK_PLACE: "scene.yaml", SORT_PARTS: "sort_parts.yaml"}
SIDES = {"left": 1.0, "right": -1.0}  # a bin's side -> the sign of its y
GRIPPER_SPEED_M_S = 0.2  # of the simulated fingers
CONTROL_RATE_HZ = 100.0  # the arm driver's control loop, in the simulated cell
Section = Mapping[str, Any]


@dataclass(frozen=True)
class CellLayout:
    """A cell as data: what its scene's file says of it. Lengths in m, angles in rad."""

    physics_step_s: float
    seeds: Section  # the stream of random numbers, and the order in which things are drawn from it
    table: Section
    mat: Section
    blocks: Section
    colours: Section  # name -> hue, saturation and brightness, 0..1
    bins: Section
    places: Section
    tones: Section
    cameras: Section
    lighting: Section
    outcome: Section
    distractors: Section | None = None
    workcell: Section | None = None
    hand: Section | None = None  # of a person; it needs a workcell to reach into

    @property
    def block_names(self) -> tuple[str, ...]:
        """Bodies, joints and geoms of the blocks."""
        return tuple(f"block{number}" for number in range(self.blocks["count"]))

    @property
    def bin_names(self) -> tuple[str, ...]:
        """The side of each bin, in the order of their ids."""
        return tuple(self.bins["sides"])

    @property
    def colour_names(self) -> tuple[str, ...]:
        """In the order of their ids."""
        return tuple(self.colours)

    @property
    def shapes(self) -> Section:
        """The distractors: name -> radius and, but for spheres, half height."""
        return {} if self.distractors is None else dict(self.distractors["shapes"])

    def on_mat(self, xy: NDArray[np.float64], margin: float = 0.0) -> bool:
        """Whether a place `(2,)` is on the mat, or off it by less than `margin`."""
        (x0, x1), (y0, y1) = self.mat["x"], self.mat["y"]
        return bool(x0 - margin < xy[0] < x1 + margin and y0 - margin < xy[1] < y1 + margin)


def hardware_dir() -> Path:
    """`hardware/panda` as shipped, or `$ROSA_HARDWARE_DIR/panda`."""
    root = os.environ.get("ROSA_HARDWARE_DIR", "")
    return (Path(root) if root else shipped("hardware")) / "panda"


@cache
def panda() -> RobotSpec:
    """`configs/robots/panda.yaml`: names, limits, poses, Denavit-Hartenberg parameters, gripper."""
    return load_robot(shipped("configs", "robots", "panda.yaml"))


@cache
def cell(scene: str = PICK_PLACE) -> CellLayout:
    """The layout of a scene, from its file. Raises `ValueError` for an unknown scene."""
    if scene not in SCENE_FILES:
        raise ValueError(f"unknown scene {scene!r}: known are {', '.join(SCENE_FILES)}")
    path = hardware_dir() / SCENE_FILES[scene]
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: run from a checkout of ROSA, or set ROSA_HARDWARE_DIR to its hardware folder"
        )
    return CellLayout(**yaml.safe_load(path.read_text()))
