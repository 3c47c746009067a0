"""One look at a cell with everything that is known about it: what a robot would send, and the truth."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rosa_server.models.backend import ModelInput
from rosa_server.models.panda.kinematics import forward
from rosa_sim.cell.expert import expert_chunk
from rosa_sim.cell.layout.hand import draw_hand
from rosa_sim.cell.layout.hardware import CellLayout
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.training.data.pictures import through_jpeg
from rosa_sim.training.data.words import BINS, COLOURS, OUTCOMES, Subtask, next_subtask

Vector = NDArray[np.float64]
KEYPOINTS = (*COLOURS, *(f"{name} bin" for name in BINS), "hand", "tool")
HAND = KEYPOINTS.index("hand")
JPEG_QUALITY = 90
HAND_SHARE = 0.34  # of looks with a hand in or near the picture
_NEAR_EDGE_M = 0.02  # no hand stands closer to the workcell's edge: what it is there, no picture says
# Behind the tip of a hand, along it, m: knuckles, palm, wrist, forearm. Eyes that were taught the tip alone called a
# hand absent whose tip the arm hides.
HAND_PARTS_M = (0.0, 0.05, 0.10, 0.16, 0.24, 0.34)
_DRAWN_GROUPS = np.array([1, 1, 1, 0, 0, 0], dtype=np.uint8)


def look(world: World, renderer: SceneRenderer, blank: bool = False) -> ModelInput:
    """What the robot would send now, as System 1 sees it."""
    pictures = renderer.render(world.seed, world.qpos)
    images = {
        name: through_jpeg(picture * (0 if blank else 1), JPEG_QUALITY) for name, picture in pictures.items()
    }
    state = {
        "joint_position": world.joint_position.astype(np.float32),
        "gripper_width": np.array([world.gripper_width], np.float32),
    }
    return ModelInput("system1", images=images, state=state)


class LookRecorder:
    """Renders and labels states of a world. `rows`: what was recorded so far."""

    def __init__(self, world: World, renderer: SceneRenderer, rng: np.random.Generator) -> None:
        self._world, self._renderer, self._rng = world, renderer, rng
        self.rows: list[dict[str, Any]] = []

    def record(
        self, subtask: Subtask = (0, 0), rule: int = 0, settled: bool = True, hand_share: float = HAND_SHARE
    ) -> None:
        """One look; `settled` when the arm stands still as when a robot sends its pictures.

        A cell that a hand may enter has one in this share of its looks, and is labelled with all that is said of it.
        """
        world, rng, c = self._world, self._rng, self._world.layout
        if c.hand is None:
            pictures = self._renderer.render(world.seed, world.qpos)
        else:
            with_hand = rng.random() < hand_share
            # Another hand for each look, not the one that the seed gives the cell.
            hand = draw_hand(rng, c)
            world.place_hand(hand_place(c, hand.inside, hand.way_in, rng) if with_hand else None)
            pictures = self._renderer.render(world.seed, world.qpos, hand.apply)
        quality = int(rng.integers(85, 96))
        q_rad = world.joint_position
        row = {
            **{name: through_jpeg(picture, quality) for name, picture in pictures.items()},
            "joint_position": q_rad.astype(np.float32),
            "gripper_width": np.float32(world.gripper_width),
            "tool": forward(q_rad)[0].astype(np.float32),
            "chunk": expert_chunk(world, *subtask),
            "colour": np.int64(subtask[0]),
            "bin": np.int64(subtask[1]),
            "outcome": np.int64(OUTCOMES.index(world.block_outcome(*subtask))),
            "settled": np.bool_(settled),
            "seed": np.int64(world.seed),
            "block_xyz": world.block_positions.astype(np.float32),
            "block_colour": world.variation.block_colour,
            "bin_xy": world.bin_positions.astype(np.float32),
        }
        if c.hand is not None:
            row |= self._said_of(rule)
            world.place_hand(None)
        self.rows.append(row)

    def _said_of(self, rule: int) -> dict[str, Any]:
        """What System 2 and safety should say, and where everything is in the pictures."""
        world, renderer = self._world, self._renderer
        plan, hand, points = next_subtask(rule, world.blocks), world.hand_position, keypoints(world)
        return {
            "rule": np.int64(rule),
            "plan": np.array(plan if plan is not None else (-1, -1), dtype=np.int64),
            "safe": np.bool_(world.safe),
            "hand_xyz": (np.full(3, np.nan) if hand is None else hand).astype(np.float32),
            "pixels_front": marks(renderer.model, renderer.data, "front", points),
            "pixels_wrist": marks(renderer.model, renderer.data, "wrist", points),
        }


def hand_place(c: CellLayout, inside: Vector, way_in: Vector, rng: np.random.Generator) -> Vector:
    """Where on its way a hand is seen `(3,)`: mostly inside the workcell, else outside of it, near the edge or not."""
    reach = rng.uniform(0.0, 0.32) if rng.random() < 0.55 else 0.0
    zone = c.workcell
    assert zone is not None
    for _ in range(100):
        place = inside - np.array([*(reach * way_in), 0.0])
        gaps = [min(place[i] - zone[axis][0], zone[axis][1] - place[i]) for i, axis in enumerate("xy")]
        if abs(min(gaps)) > _NEAR_EDGE_M:
            return np.asarray(place)
        reach = rng.uniform(0.0, 0.32)
    return inside


def keypoints(world: World) -> NDArray[np.float64]:
    """The points of `KEYPOINTS` in the world `(12, 3)` m, nan for what the cell does not have."""
    points = np.full((len(KEYPOINTS), 3), np.nan)
    points[world.variation.block_colour] = world.block_positions
    points[8:10] = np.concatenate([world.bin_positions, np.full((2, 1), 0.002)], axis=1)
    if world.hand_position is not None:
        points[HAND] = world.hand_position
    points[11] = world.tool_position
    return points


def marks(
    model: mujoco.MjModel, data: mujoco.MjData, camera: str, points: NDArray[np.float64]
) -> NDArray[np.float32]:
    """As `pixels` of `KEYPOINTS` `(12, 3)`; a hand is where its foremost part is that the camera sees."""
    out = pixels(model, data, camera, points)
    tip = points[HAND]
    if np.isfinite(tip).all():
        forearm = model.body("forearm").id
        backwards = -data.xmat[forearm].reshape(3, 3)[:, 0]
        parts = pixels(model, data, camera, tip + np.outer(HAND_PARTS_M, backwards), forearm)
        seen = np.flatnonzero(parts[:, 2])
        out[HAND] = parts[seen[0] if len(seen) else 0]
    return out


def pixels(
    model: mujoco.MjModel, data: mujoco.MjData, camera: str, points: NDArray[np.float64], of: int = -1
) -> NDArray[np.float32]:
    """`points` `(n, 3)` in the picture of a square `camera` `(n, 3)`: u to the right, v down, 0..1, and visible 0/1.

    Invisible: outside the picture, behind the camera, or behind something else than the body `of`. `data` needs its
    kinematics.
    """
    number = model.camera(camera).id
    position, axes = data.cam_xpos[number], data.cam_xmat[number].reshape(3, 3)
    seen = (points - position) @ axes  # x right, y up, z backwards
    depth = -seen[:, 2]
    half = np.tan(np.radians(model.cam_fovy[number]) / 2)
    out = np.zeros((len(points), 3), dtype=np.float32)
    for row, point in enumerate(points):
        if not np.isfinite(point).all() or depth[row] < 0.01:
            continue
        u, v = 0.5 + seen[row, 0] / depth[row] / half / 2, 0.5 - seen[row, 1] / depth[row] / half / 2
        out[row, :2] = np.clip((u, v), -1.0, 2.0)
        if 0 <= u <= 1 and 0 <= v <= 1:
            distance = float(np.linalg.norm(point - position))
            struck = np.full((1, 1), -1, np.int32)
            hit = mujoco.mj_ray(
                model,
                data,
                position,
                (point - position) / distance,
                _DRAWN_GROUPS,
                1,
                -1,
                struck,
            )
            itself = hit >= 0 and model.geom_bodyid[struck[0, 0]] == of
            out[row, 2] = float(hit < 0 or itself or hit > distance - _THICK_M)
    return out


_THICK_M = 0.036  # half a block's diagonal: the ray ends on its surface, the point is its middle
