"""What differs between seeds of the sorting cell: poses, colours, tones, light, cameras, and who reaches in."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rosa_sim.cell.layout.hardware import SORT_PARTS, cell, panda
from rosa_sim.cell.layout.mjcf import look_at
from rosa_sim.cell.layout.sort_names import BINS, BLOCKS, COLOURS
from rosa_sim.cell.layout.sort_pieces import SKIN, SLEEVE, TAPES
from rosa_sim.cell.layout.variation import CellVariation

Vector = NDArray[np.float64]
_TONED = ("table", "mat", "bin", "floor")
_TRIES = 2000


@dataclass(frozen=True)
class Hand:
    """How a hand comes in and looks. Its position is that of the middle finger's tip, m."""

    way_in: Vector  # (2,) unit vector, the way the fingers point
    pitch: float  # rad, the elbow above the fingers
    inside: Vector  # (3,) where it stays while it is in the workcell
    outside: Vector  # (3,) where it comes from, clear of the workcell
    skin: Vector  # (3,) RGB 0..1
    sleeve: Vector  # (3,) RGB 0..1
    start_s: float  # when the visit begins; infinite in a cell without one
    stay_s: float

    def at(self, time_s: float) -> Vector | None:
        """Where it is on its visit `(3,)`, None before and after."""
        move_s = float(cell(SORT_PARTS)["hand"]["move_s"])
        since = time_s - self.start_s
        until = 2 * move_s + self.stay_s - since
        if since < 0 or until < 0:
            return None
        share = min(1.0, since / move_s, until / move_s)
        return self.outside + share * (self.inside - self.outside)


@dataclass(frozen=True, kw_only=True)
class SortVariation(CellVariation):
    """One seed's sorting cell."""

    block_xy: Vector  # (3, 2)
    block_yaw: Vector  # (3,)
    block_colour: NDArray[np.int64]  # (3,) ids in COLOURS
    paint: Vector  # (3, 3) RGB of the blocks
    bin_xy: Vector  # (2, 2), left and right
    tones: dict[str, Vector]  # material -> (3,)
    tape: Vector  # (3,)
    camera_roll: dict[str, float]
    hand: Hand

    @staticmethod
    @lru_cache(maxsize=8)
    def of(seed: int) -> SortVariation:
        """The same seed always gives the same cell. Nobody writes into it."""
        c = cell(SORT_PARTS)
        rng = np.random.default_rng([20_262, seed])
        block_xy = _block_places(rng, c)
        colours = rng.permutation(len(COLOURS))[: len(BLOCKS)]
        bins = np.array([[rng.uniform(*c["bins"]["x"]), rng.uniform(*c["bins"]["y"])] for _ in BINS])
        bins[1, 1] *= -1.0
        jitter = c["tones"]["jitter"]
        tones = {}
        for name in (*_TONED, "tape"):
            factor = rng.uniform(1 - jitter, 1 + jitter) * (1.0 + rng.uniform(-0.05, 0.05, 3))
            tones[name] = np.clip(np.array(c["tones"][name]) * factor, 0.0, 1.0)
        cameras, roll = {}, {}
        for name, camera in c["cameras"].items():
            position, target = np.array(camera["position"]), np.array(camera["look_at"])
            shift = camera["jitter_m"] * _in_ball(rng)
            turn = camera["jitter_rad"] * _in_ball(rng)
            axes = look_at(position, target)
            aside = np.linalg.norm(target - position) * (
                np.tan(turn[0]) * axes[:, 0] + np.tan(turn[1]) * axes[:, 1]
            )
            cameras[name] = (position + shift, target + shift + aside)
            roll[name] = float(turn[2])
        light = c["lighting"]
        share = float(np.exp(rng.uniform(np.log(light["share"]), 0.0)))
        tilt = light["key_tilt"]
        return SortVariation(
            seed=seed,
            block_xy=block_xy,
            block_yaw=rng.uniform(-1, 1, len(BLOCKS)) * c["blocks"]["max_yaw_rad"],
            block_colour=colours.astype(np.int64),
            paint=np.stack([_paint(rng, c["colours"][COLOURS[colour]]) for colour in colours]),
            bin_xy=bins,
            tones=tones,
            tape=tones.pop("tape"),
            light_direction=np.array([rng.uniform(-tilt, tilt), rng.uniform(-tilt, tilt), -1.0]),
            key_diffuse=share * float(rng.uniform(*light["key_diffuse"])),
            fill=share * float(rng.uniform(*light["fill"])),
            headlight=share * light["headlight"],
            cameras=cameras,
            camera_roll=roll,
            hand=draw_hand(rng),
        )

    def apply(self, model: mujoco.MjModel) -> None:
        for name, xy in zip(BINS, self.bin_xy, strict=True):
            model.body(f"{name}_bin").pos[:2] = xy
        for name, paint in zip(BLOCKS, self.paint, strict=True):
            model.geom(name).rgba[:3] = paint
        for name, tone in self.tones.items():
            model.material(name).rgba[:3] = tone
        for name in TAPES:
            model.geom(name).rgba[:3] = self.tape
        self.apply_light(model)
        for name, (position, target) in self.cameras.items():
            camera = model.camera(name)
            camera.pos[:] = position
            c, s = np.cos(self.camera_roll[name]), np.sin(self.camera_roll[name])
            axes = look_at(position, target) @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
            mujoco.mju_mat2Quat(camera.quat, axes.flatten())
        apply_hand(model, self.hand)

    def initial_qpos(self, model: mujoco.MjModel) -> Vector:
        c = cell(SORT_PARTS)
        qpos = np.asarray(model.qpos0).copy()
        qpos[:7] = panda().home_rad
        qpos[7:9] = panda().gripper.max_m / 2
        for name, xy, yaw in zip(BLOCKS, self.block_xy, self.block_yaw, strict=True):
            at = model.joint(name).qposadr[0]
            qpos[at : at + 7] = [*xy, c["blocks"]["half_size"], np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]
        at = model.joint("hand_x").qposadr[0]
        qpos[at : at + 3] = c["hand"]["parked"]
        return qpos


def apply_hand(model: mujoco.MjModel, hand: Hand) -> None:
    """Write how a hand is turned and looks into `model`."""
    backwards = np.array([*(-hand.way_in * np.cos(hand.pitch)), np.sin(hand.pitch)])
    left = np.array([-hand.way_in[1], hand.way_in[0], 0.0])
    axes = np.stack([-backwards, left, np.cross(-backwards, left)], axis=1)
    mujoco.mju_mat2Quat(model.body("forearm").quat, axes.flatten())
    for name in SKIN:
        model.geom(name).rgba[:3] = hand.skin
    model.geom(SLEEVE).rgba[:3] = hand.sleeve


def draw_hand(rng: np.random.Generator) -> Hand:
    """A hand that comes from the front or from a side, and where it stays inside the workcell."""
    c = cell(SORT_PARTS)
    h, zone = c["hand"], c["workcell"]
    side = rng.choice(["front", "left", "right"])
    height = rng.uniform(*h["height"])
    turn = rng.uniform(-h["turn_rad"], h["turn_rad"])
    if side == "front":
        angle = np.pi + turn
        edge = np.array([zone["x"][1], rng.uniform(-0.20, 0.20)])
    else:
        sign = 1.0 if side == "left" else -1.0
        angle = -sign * np.pi / 2 + turn
        edge = np.array([rng.uniform(0.36, 0.60), sign * zone["y"][1]])
    way = np.array([np.cos(angle), np.sin(angle)])
    inside = edge + way * rng.uniform(0.07, 0.24)
    outside = edge - way * 0.12
    gloves = rng.random() < h["gloves"]
    if gloves:
        skin = np.array(colorsys.hsv_to_rgb(rng.uniform(), rng.uniform(0, 0.9), rng.uniform(0.1, 0.95)))
    else:
        skin = np.array(
            colorsys.hsv_to_rgb(rng.uniform(0.03, 0.08), rng.uniform(0.3, 0.6), rng.uniform(0.3, 0.95))
        )
    sleeve = np.array(colorsys.hsv_to_rgb(rng.uniform(), rng.uniform(0, 0.9), rng.uniform(0.1, 0.95)))
    visits = rng.random() < h["visits"]
    start_s = float(rng.uniform(*h["start_s"]))
    return Hand(
        way_in=way,
        pitch=float(rng.uniform(*h["pitch_rad"])),
        inside=np.array([*inside, height]),
        outside=np.array([*outside, height + 0.03]),
        skin=skin,
        sleeve=sleeve,
        start_s=start_s if visits else float("inf"),
        stay_s=float(rng.uniform(*h["stay_s"])),
    )


def _block_places(rng: np.random.Generator, c: dict[str, Any]) -> Vector:
    """Three places on the mat `(3, 2)`, apart from each other as far as the fingers and the order of plans need."""
    margin = c["blocks"]["margin_in_mat"]
    (x0, x1), (y0, y1) = c["mat"]["x"], c["mat"]["y"]
    for _ in range(_TRIES):
        xy = rng.uniform([x0 + margin, y0 + margin], [x1 - margin, y1 - margin], (len(BLOCKS), 2))
        if spaced(xy):
            return xy
    raise RuntimeError(f"no room for {len(BLOCKS)} blocks on the mat: spacing {c['blocks']['spacing']} m")


def spaced(xy: Vector) -> bool:
    """Whether blocks at `(n, 2)` leave room for the fingers and differ in their distance from the base."""
    c = cell(SORT_PARTS)["blocks"]
    pairs = [(i, j) for i in range(len(xy)) for j in range(i)]
    return all(
        np.linalg.norm(xy[i] - xy[j]) > c["spacing"] and abs(xy[i][0] - xy[j][0]) > c["apart_x"]
        for i, j in pairs
    )


def _paint(rng: np.random.Generator, ranges: dict[str, list[float]]) -> Vector:
    wanted = (ranges[key] for key in ("hue", "saturation", "brightness"))
    hue, saturation, brightness = (rng.uniform(low, high) for low, high in wanted)
    return np.array(colorsys.hsv_to_rgb(hue % 1.0, saturation, brightness))


def _in_ball(rng: np.random.Generator) -> Vector:
    """A point of the unit ball `(3,)`, evenly spread."""
    way = rng.normal(size=3)
    return np.asarray(way / np.linalg.norm(way) * rng.uniform() ** (1 / 3))
