"""What differs between seeds: poses, colours, lights and cameras. Applied to a model in place, without recompiling."""

from __future__ import annotations

import colorsys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import mujoco
import numpy as np
from numpy.typing import NDArray

from rosa_sim.cell.layout.hardware import cell, panda
from rosa_sim.cell.layout.mjcf import look_at
from rosa_sim.cell.layout.pieces import DISTRACTORS

Vector = NDArray[np.float64]
HEADLIGHT = 0.3  # the same in every cell


@dataclass(frozen=True, kw_only=True)
class CellVariation(ABC):
    """One seed's cell of a scene: how it is lit and seen. Lengths in m, angles in rad, colours RGB 0..1."""

    seed: int
    light_direction: Vector  # (3,)
    key_diffuse: float
    fill: float
    headlight: float
    cameras: dict[str, tuple[Vector, Vector]]  # name -> position (3,), look_at (3,)

    @abstractmethod
    def apply(self, model: mujoco.MjModel) -> None:
        """Write everything but the movable state into `model`."""

    @abstractmethod
    def initial_qpos(self, model: mujoco.MjModel) -> Vector:
        """`(nq,)`: arm at home, gripper open, objects at their places."""

    def apply_light(self, model: mujoco.MjModel) -> None:
        """Write the lights into `model`."""
        light = model.light("key")
        light.dir[:] = self.light_direction / np.linalg.norm(self.light_direction)
        light.diffuse[:] = self.key_diffuse
        model.vis.headlight.ambient[:] = self.fill
        model.vis.headlight.diffuse[:] = self.headlight


@dataclass(frozen=True, kw_only=True)
class Variation(CellVariation):
    """The pick-and-place cell."""

    cube_xy: Vector  # (2,)
    cube_yaw: float
    bin_xy: Vector  # (2,)
    distractors: dict[str, Vector]  # name -> (x, y); absent ones are parked out of sight
    colours: dict[str, Vector]  # geom or material -> (3,)

    @staticmethod
    def of(seed: int) -> Variation:
        """The same seed always gives the same cell."""
        c = cell()
        rng = np.random.default_rng([20_260, seed])
        low, high = _mat_corners(c["cube"]["margin_in_mat"])
        cube_xy = rng.uniform(low, high)
        cube_yaw = float(rng.uniform(-1, 1) * c["cube"]["max_yaw_rad"])
        bin_xy = np.array([rng.uniform(*c["bin"]["x"]), rng.uniform(*c["bin"]["y"])])
        distractors = _place_distractors(rng, cube_xy, bin_xy)
        colours = {"cube": _colour(rng, c["cube"])}
        colours |= {name: _colour(rng, c["distractors"]) for name in DISTRACTORS}
        for name in ("table", "mat", "bin", "floor"):
            colours[name] = rng.uniform(0.85, 1.15) * (1.0 + rng.uniform(-0.05, 0.05, 3))  # factors
        tilt = c["lighting"]["key_tilt"]
        cameras = {}
        for name, camera in c["cameras"].items():
            jitter = camera["jitter_m"] * rng.uniform(-1, 1, (2, 3))
            position = np.array(camera["position"]) + jitter[0]
            cameras[name] = (position, np.array(camera["look_at"]) + jitter[1])
        return Variation(
            seed=seed,
            cube_xy=cube_xy,
            cube_yaw=cube_yaw,
            bin_xy=bin_xy,
            distractors=distractors,
            colours=colours,
            light_direction=np.array([rng.uniform(-tilt, tilt), rng.uniform(-tilt, tilt), -1.0]),
            key_diffuse=float(rng.uniform(*c["lighting"]["key_diffuse"])),
            fill=float(rng.uniform(*c["lighting"]["fill"])),
            headlight=HEADLIGHT,
            cameras=cameras,
        )

    def apply(self, model: mujoco.MjModel) -> None:
        model.body("bin").pos[:2] = self.bin_xy
        for name in ("cube", *DISTRACTORS):
            model.geom(name).rgba[:3] = self.colours[name]
        for name in ("table", "mat", "bin", "floor"):
            material = model.material(name)
            base = _BASE_COLOURS.setdefault(name, material.rgba[:3].copy())
            material.rgba[:3] = np.clip(base * self.colours[name], 0, 1)
        self.apply_light(model)
        for name, (position, target) in self.cameras.items():
            camera = model.camera(name)
            camera.pos[:] = position
            mujoco.mju_mat2Quat(camera.quat, look_at(position, target).flatten())

    def initial_qpos(self, model: mujoco.MjModel) -> Vector:
        c = cell()
        qpos = np.asarray(model.qpos0).copy()
        qpos[:7] = panda().home_rad
        qpos[7:9] = panda().gripper.max_m / 2
        yaw = np.array([np.cos(self.cube_yaw / 2), 0, 0, np.sin(self.cube_yaw / 2)])
        at = model.joint("cube").qposadr[0]
        qpos[at : at + 7] = [*self.cube_xy, c["cube"]["half_size"], *yaw]
        for number, name in enumerate(DISTRACTORS):
            at = model.joint(name).qposadr[0]
            shape = c["distractors"][name]
            height = shape.get("half_height", shape["radius"])
            if name in self.distractors:
                qpos[at : at + 3] = [*self.distractors[name], height]
            else:
                qpos[at : at + 3] = [2.2, 0.3 * number, c["table"]["floor_z"] + height]
            qpos[at + 3 : at + 7] = [1, 0, 0, 0]
        return qpos


Cell = TypeVar("Cell", bound=CellVariation)
Change = Callable[[Any], Any]  # of a cell's look, `Cell` to the same `Cell`; what lies where stays as it is


def unchanged(cell: Cell) -> Cell:
    """The cell as the models were trained on it."""
    return cell


def with_cube(red: float, green: float, blue: float) -> Change:
    """A cube of this colour, 0..1 each."""
    return lambda cell: replace(cell, colours=cell.colours | {"cube": np.array([red, green, blue])})


def with_light(factor: float) -> Change:
    """All light of the cell times `factor`."""
    return lambda cell: replace(
        cell,
        key_diffuse=cell.key_diffuse * factor,
        fill=cell.fill * factor,
        headlight=cell.headlight * factor,
    )


def with_camera_moved(distance_m: float) -> Change:
    """The front camera shifted, looking in the same direction as before; which way is drawn from the seed."""

    def change(cell: Cell) -> Cell:
        way = np.random.default_rng([20_261, cell.seed]).normal(size=3)
        shift = distance_m * way / np.linalg.norm(way)
        position, target = cell.cameras["front"]
        return replace(cell, cameras=cell.cameras | {"front": (position + shift, target + shift)})

    return change


CHANGES: dict[str, Change] = {
    "none": unchanged,
    "magenta cube": with_cube(1.0, 0.0, 1.0),
    "camera moved by 3 cm": with_camera_moved(0.03),
    "half the light": with_light(0.5),
    "a quarter of the light": with_light(0.25),
    "white cube": with_cube(1.0, 1.0, 1.0),
    "black cube": with_cube(0.02, 0.02, 0.02),
}


_BASE_COLOURS: dict[str, Vector] = {}  # as compiled, so that a second seed does not multiply the first


def _colour(rng: np.random.Generator, ranges: dict[str, list[float]]) -> Vector:
    """Any hue, with the saturation and brightness of the kind `(3,)`."""
    (pale, full), (dark, light) = ranges["saturation"], ranges["brightness"]
    hue, saturation = rng.uniform(), rng.uniform(pale, full)
    return np.array(colorsys.hsv_to_rgb(hue, saturation, rng.uniform(dark, light)))


def _mat_corners(margin: float) -> tuple[Vector, Vector]:
    (x0, x1), (y0, y1) = cell()["mat"]["x"], cell()["mat"]["y"]
    return np.array([x0 + margin, y0 + margin]), np.array([x1 - margin, y1 - margin])


def _place_distractors(rng: np.random.Generator, cube_xy: Vector, bin_xy: Vector) -> dict[str, Vector]:
    """Some of the distractors, on the table, clear of the cube, of the bin and of each other."""
    c = cell()["distractors"]
    names = rng.permutation(list(DISTRACTORS))[: rng.integers(c["count"][0], c["count"][1] + 1)]
    placed: dict[str, Vector] = {}
    for name in names:
        for _ in range(100):
            xy = rng.uniform([0.34, -0.36], [0.70, 0.16])
            far_from_cube = np.linalg.norm(xy - cube_xy) > c["clearance"]
            far_from_bin = np.abs(xy - bin_xy).max() > 0.14
            if far_from_cube and far_from_bin and all(np.linalg.norm(xy - p) > 0.09 for p in placed.values()):
                placed[str(name)] = xy
                break
    return placed
