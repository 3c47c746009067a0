"""A person's hand that reaches into a cell: its body, how it looks, and when it comes and goes."""

from __future__ import annotations

import colorsys
import xml.etree.ElementTree as ET
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from rosa_sim.cell.layout.hardware import CellLayout
from rosa_sim.cell.layout.mjcf import SEEN_ONLY, box, numbers

Vector = NDArray[np.float64]
SKIN, SLEEVE = ("palm", "thumb", "finger0", "finger1", "finger2", "finger3"), "sleeve"


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
    move_s: float  # how long it takes to come in, and to leave
    stay_s: float

    def at(self, time_s: float) -> Vector | None:
        """Where it is on its visit `(3,)`, None before and after."""
        since = time_s - self.start_s
        until = 2 * self.move_s + self.stay_s - since
        if since < 0 or until < 0:
            return None
        share = min(1.0, since / self.move_s, until / self.move_s)
        return self.outside + share * (self.inside - self.outside)

    def apply(self, model: mujoco.MjModel) -> None:
        """Write how it is turned and looks into `model`."""
        backwards = np.array([*(-self.way_in * np.cos(self.pitch)), np.sin(self.pitch)])
        left = np.array([-self.way_in[1], self.way_in[0], 0.0])
        axes = np.stack([-backwards, left, np.cross(-backwards, left)], axis=1)
        mujoco.mju_mat2Quat(model.body("forearm").quat, axes.flatten())
        for name in SKIN:
            model.geom(name).rgba[:3] = self.skin
        model.geom(SLEEVE).rgba[:3] = self.sleeve


def draw_hand(rng: np.random.Generator, c: CellLayout) -> Hand:
    """A hand that comes from the front or from a side, and where it stays inside the workcell."""
    assert c.hand is not None and c.workcell is not None
    h, zone = c.hand, c.workcell
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
        skin = _colour(rng, (0, 1), (0, 0.9), (0.1, 0.95))
    else:
        skin = _colour(rng, (0.03, 0.08), (0.3, 0.6), (0.3, 0.95))
    sleeve = _colour(rng, (0, 1), (0, 0.9), (0.1, 0.95))
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
        move_s=float(h["move_s"]),
        stay_s=float(rng.uniform(*h["stay_s"])),
    )


def _colour(rng: np.random.Generator, *ranges: tuple[float, float]) -> Vector:
    """RGB 0..1 of a hue, a saturation and a brightness within `ranges`."""
    return np.array(colorsys.hsv_to_rgb(*(rng.uniform(*one) for one in ranges)))


def hand_body() -> ET.Element:
    """A hand with its forearm that touches nothing: three slides, so that its place is part of the state.

    The origin is the tip of the middle finger, x the way it points; how it is turned is the variation's.
    """
    hand = ET.Element("body", name="hand", pos="0 0 0", gravcomp="1")
    for axis, direction in (("x", "1 0 0"), ("y", "0 1 0"), ("z", "0 0 1")):
        ET.SubElement(hand, "joint", name=f"hand_{axis}", type="slide", axis=direction, armature="1")
    turned = ET.SubElement(hand, "body", name="forearm", gravcomp="1")
    turned.append(box("palm", (-0.125, 0, 0), (0.045, 0.042, 0.015), **SEEN_ONLY))
    for number, (side, tip) in enumerate(((0.033, -0.012), (0.011, 0.0), (-0.011, -0.004), (-0.033, -0.025))):
        turned.append(_capsule(f"finger{number}", (tip, side, 0), (-0.09, side, 0), 0.0095))
    turned.append(_capsule("thumb", (-0.075, 0.075, -0.01), (-0.13, 0.035, 0), 0.011))
    turned.append(_capsule(SLEEVE, (-0.19, 0, 0), (-0.55, 0, 0), 0.042))
    return hand


def _capsule(
    name: str, start: tuple[float, float, float], end: tuple[float, float, float], radius: float
) -> ET.Element:
    ends = numbers([*start, *end])
    return ET.Element(
        "geom", {"name": name, "type": "capsule", "fromto": ends, "size": f"{radius}", **SEEN_ONLY}
    )
