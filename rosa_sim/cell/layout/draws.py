"""What a seed draws for a cell: one function for each kind of thing, called in the order that the layout says.

The order is part of what a seed means: in another one the same seed would be another cell.
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_sim.cell.layout.hand import draw_hand
from rosa_sim.cell.layout.hardware import SIDES, CellLayout
from rosa_sim.cell.layout.mjcf import look_at

Vector = NDArray[np.float64]
Fields = dict[str, Any]  # of a `Variation`
# Colours of the materials, in the single precision in which MuJoCo stores them, where a layout says no others.
TONES = {
    name: np.array(rgb, np.float32)
    for name, rgb in {
        "table": (0.75, 0.66, 0.52),
        "mat": (0.25, 0.27, 0.30),
        "bin": (0.55, 0.57, 0.6),
        "floor": (0.42, 0.44, 0.46),
    }.items()
}
_TRIES = 2000


def draw(c: CellLayout, seed: int) -> Fields:
    """All that differs between seeds."""
    rng = np.random.default_rng([c.seeds["stream"], seed])
    drawn: Fields = {}
    for name in c.seeds["draws"]:
        drawn |= _DRAWS[name](rng, c, drawn)
    drawn.pop("light_share", None)
    return drawn


def spaced(xy: Vector, c: CellLayout) -> bool:
    """Whether blocks at `(n, 2)` leave room for the fingers and differ in their distance from the base."""
    pairs = [(i, j) for i in range(len(xy)) for j in range(i)]
    return all(
        np.linalg.norm(xy[i] - xy[j]) > c.blocks["spacing"] and abs(xy[i][0] - xy[j][0]) > c.blocks["apart_x"]
        for i, j in pairs
    )


def _blocks(rng: np.random.Generator, c: CellLayout, drawn: Fields) -> Fields:
    """Places on the mat, apart from each other as far as the fingers and the order of plans need, and colours."""
    margin, count = c.blocks["margin_in_mat"], c.blocks["count"]
    (x0, x1), (y0, y1) = c.mat["x"], c.mat["y"]
    for _ in range(_TRIES):
        xy = rng.uniform([x0 + margin, y0 + margin], [x1 - margin, y1 - margin], (count, 2))
        if spaced(xy, c):
            colours = rng.permutation(len(c.colours))[:count]
            return {"block_xy": xy, "block_colour": colours.astype(np.int64)}
    raise RuntimeError(f"no room for {count} blocks on the mat: spacing {c.blocks['spacing']} m")


def _yaws(rng: np.random.Generator, c: CellLayout, drawn: Fields) -> Fields:
    return {"block_yaw": rng.uniform(-1, 1, c.blocks["count"]) * c.blocks["max_yaw_rad"]}


def _bins(rng: np.random.Generator, c: CellLayout, drawn: Fields) -> Fields:
    xy = np.array([[rng.uniform(*c.bins["x"]), rng.uniform(*c.bins["y"])] for _ in c.bin_names])
    xy[:, 1] *= [SIDES[side] for side in c.bin_names]
    return {"bin_xy": xy}


def _distractors(rng: np.random.Generator, c: CellLayout, drawn: Fields) -> Fields:
    """Some of them, on the table, clear of the blocks, of the bins and of each other."""
    assert c.distractors is not None
    low, high = c.distractors["count"]
    names = rng.permutation(list(c.shapes))[: rng.integers(low, high + 1)]
    placed: dict[str, Vector] = {}
    for name in names:
        for _ in range(100):
            xy = rng.uniform([0.34, -0.36], [0.70, 0.16])
            off_blocks = np.linalg.norm(drawn["block_xy"] - xy, axis=1).min() > c.distractors["clearance"]
            off_bins = np.abs(drawn["bin_xy"] - xy).max(axis=1).min() > 0.14
            if off_blocks and off_bins and all(np.linalg.norm(xy - p) > 0.09 for p in placed.values()):
                placed[str(name)] = xy
                break
    return {"distractors": placed}


def _paint(rng: np.random.Generator, c: CellLayout, drawn: Fields) -> Fields:
    colours = [c.colours[c.colour_names[colour]] for colour in drawn["block_colour"]]
    paint = {name: _rgb(rng, ranges) for name, ranges in zip(c.block_names, colours, strict=True)}
    return {"paint": paint | {name: _rgb(rng, c.distractors or {}) for name in c.shapes}}


def _rgb(rng: np.random.Generator, ranges: Any) -> Vector:
    wanted = (ranges[key] for key in ("hue", "saturation", "brightness"))
    hue, saturation, brightness = (rng.uniform(low, high) for low, high in wanted)
    return np.array(colorsys.hsv_to_rgb(hue % 1.0, saturation, brightness))


def _tones(rng: np.random.Generator, c: CellLayout, drawn: Fields) -> Fields:
    jitter, tones = c.tones["jitter"], {}
    for name in (*TONES, *(["tape"] if "tape" in c.tones else [])):
        factor = rng.uniform(1 - jitter, 1 + jitter) * (1.0 + rng.uniform(-0.05, 0.05, 3))
        tones[name] = np.clip(np.asarray(c.tones.get(name, TONES.get(name))) * factor, 0.0, 1.0)
    return {"tones": tones}


def _cameras(rng: np.random.Generator, c: CellLayout, drawn: Fields) -> Fields:
    """Shifted within a box, or, where the layout has a `jitter_rad`, within a ball, and turned."""
    cameras, roll = {}, {}
    for name, camera in c.cameras.items():
        position, target = np.array(camera["position"]), np.array(camera["look_at"])
        if "jitter_rad" in camera:
            shift = camera["jitter_m"] * _in_ball(rng)
            turn = camera["jitter_rad"] * _in_ball(rng)
            axes = look_at(position, target)
            aside = np.linalg.norm(target - position) * (
                np.tan(turn[0]) * axes[:, 0] + np.tan(turn[1]) * axes[:, 1]
            )
            cameras[name] = (position + shift, target + shift + aside)
            roll[name] = float(turn[2])
        else:
            shifts = camera["jitter_m"] * rng.uniform(-1, 1, (2, 3))
            cameras[name] = (position + shifts[0], target + shifts[1])
    return {"cameras": cameras, "camera_roll": roll}


def _in_ball(rng: np.random.Generator) -> Vector:
    """A point of the unit ball `(3,)`, evenly spread."""
    way = rng.normal(size=3)
    return np.asarray(way / np.linalg.norm(way) * rng.uniform() ** (1 / 3))


def _light_share(rng: np.random.Generator, c: CellLayout, drawn: Fields) -> Fields:
    return {"light_share": float(np.exp(rng.uniform(np.log(c.lighting["share"]), 0.0)))}


def _light(rng: np.random.Generator, c: CellLayout, drawn: Fields) -> Fields:
    light, share, tilt = c.lighting, drawn.get("light_share", 1.0), c.lighting["key_tilt"]
    return {
        "light_direction": np.array([rng.uniform(-tilt, tilt), rng.uniform(-tilt, tilt), -1.0]),
        "key_diffuse": share * float(rng.uniform(*light["key_diffuse"])),
        "fill": share * float(rng.uniform(*light["fill"])),
        "headlight": share * light["headlight"],
    }


def _hand(rng: np.random.Generator, c: CellLayout, drawn: Fields) -> Fields:
    return {"hand": draw_hand(rng, c)}


_DRAWS: dict[str, Callable[[np.random.Generator, CellLayout, Fields], Fields]] = {
    "blocks": _blocks,
    "yaws": _yaws,
    "bins": _bins,
    "distractors": _distractors,
    "paint": _paint,
    "tones": _tones,
    "cameras": _cameras,
    "light_share": _light_share,
    "light": _light,
    "hand": _hand,
}
