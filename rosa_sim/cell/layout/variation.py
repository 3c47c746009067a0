"""One seed's cell: poses, colours, lights and cameras. Applied to a model in place, without recompiling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

import mujoco
import numpy as np
from numpy.typing import NDArray

from rosa_sim.cell.layout.draws import draw
from rosa_sim.cell.layout.hand import Hand
from rosa_sim.cell.layout.hardware import PICK_PLACE, CellLayout, cell, panda
from rosa_sim.cell.layout.mjcf import look_at
from rosa_sim.cell.layout.pieces import TAPES

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Variation:
    """What a seed makes of a layout. Lengths in m, angles in rad, colours RGB 0..1. Nobody writes into it."""

    seed: int
    layout: CellLayout
    block_xy: Vector  # (blocks, 2)
    block_yaw: Vector  # (blocks,)
    block_colour: NDArray[np.int64]  # (blocks,) ids of the layout's colours
    bin_xy: Vector  # (bins, 2)
    paint: dict[str, Vector]  # block or distractor -> (3,)
    tones: dict[str, Vector]  # material or tape -> (3,)
    light_direction: Vector  # (3,)
    key_diffuse: float
    fill: float
    headlight: float
    cameras: dict[str, tuple[Vector, Vector]]  # name -> position (3,), look_at (3,)
    camera_roll: dict[str, float]  # where it is not zero
    distractors: dict[str, Vector] = field(
        default_factory=dict
    )  # (x, y); absent ones are parked out of sight
    hand: Hand | None = None

    @staticmethod
    @lru_cache(maxsize=16)
    def of(seed: int, scene: str = PICK_PLACE) -> Variation:
        """The same seed always gives the same cell."""
        return Variation(seed=seed, layout=cell(scene), **draw(cell(scene), seed))

    def apply(self, model: mujoco.MjModel) -> None:
        """Write everything but the movable state into `model`."""
        for side, xy in zip(self.layout.bin_names, self.bin_xy, strict=True):
            model.body(f"{side}_bin").pos[:2] = xy
        for name, paint in self.paint.items():
            model.geom(name).rgba[:3] = paint
        for name, tone in self.tones.items():
            for coloured in map(model.geom, TAPES) if name == "tape" else [model.material(name)]:
                coloured.rgba[:3] = tone
        light = model.light("key")
        light.dir[:] = self.light_direction / np.linalg.norm(self.light_direction)
        light.diffuse[:] = self.key_diffuse
        model.vis.headlight.ambient[:] = self.fill
        model.vis.headlight.diffuse[:] = self.headlight
        for name, (position, target) in self.cameras.items():
            camera, roll = model.camera(name), self.camera_roll.get(name, 0.0)
            camera.pos[:] = position
            c, s = np.cos(roll), np.sin(roll)
            axes = look_at(position, target) @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
            mujoco.mju_mat2Quat(camera.quat, axes.flatten())
        if self.hand is not None:
            self.hand.apply(model)

    def initial_qpos(self, model: mujoco.MjModel) -> Vector:
        """`(nq,)`: arm at home, gripper open, objects at their places."""
        c = self.layout
        qpos = np.asarray(model.qpos0).copy()
        qpos[:7] = panda().home_rad
        qpos[7:9] = panda().gripper.max_m / 2
        for name, xy, yaw in zip(c.block_names, self.block_xy, self.block_yaw, strict=True):
            at = model.joint(name).qposadr[0]
            qpos[at : at + 7] = [*xy, c.blocks["half_size"], np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]
        for number, (name, shape) in enumerate(c.shapes.items()):
            at = model.joint(name).qposadr[0]
            height = shape.get("half_height", shape["radius"])
            parked = [2.2, 0.3 * number, c.table["floor_z"] + height]
            place = [*self.distractors[name], height] if name in self.distractors else parked
            qpos[at : at + 7] = [*place, 1, 0, 0, 0]
        if c.hand is not None:
            at = model.joint("hand_x").qposadr[0]
            qpos[at : at + 3] = c.hand["parked"]
        return qpos


Change = Callable[[Variation], Variation]  # of a cell's look; what lies where stays as it is


def unchanged(seen: Variation) -> Variation:
    """The cell as the models were trained on it."""
    return seen


def with_blocks(red: float, green: float, blue: float) -> Change:
    """All blocks of this colour, 0..1 each."""
    return lambda seen: replace(
        seen, paint=seen.paint | {name: np.array([red, green, blue]) for name in seen.layout.block_names}
    )


def with_light(factor: float) -> Change:
    """All light of the cell times `factor`."""
    return lambda seen: replace(
        seen,
        key_diffuse=seen.key_diffuse * factor,
        fill=seen.fill * factor,
        headlight=seen.headlight * factor,
    )


def with_camera_moved(distance_m: float) -> Change:
    """The front camera shifted, looking in the same direction as before; which way is drawn from the seed."""

    def change(seen: Variation) -> Variation:
        way = np.random.default_rng([20_261, seen.seed]).normal(size=3)
        shift = distance_m * way / np.linalg.norm(way)
        position, target = seen.cameras["front"]
        return replace(seen, cameras=seen.cameras | {"front": (position + shift, target + shift)})

    return change


CHANGES: dict[str, Change] = {
    "none": unchanged,
    "magenta cube": with_blocks(1.0, 0.0, 1.0),
    "camera moved by 3 cm": with_camera_moved(0.03),
    "half the light": with_light(0.5),
    "a quarter of the light": with_light(0.25),
    "white cube": with_blocks(1.0, 1.0, 1.0),
    "black cube": with_blocks(0.02, 0.02, 0.02),
}
