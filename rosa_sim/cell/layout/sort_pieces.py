"""What stands in the sorting cell besides the arm."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from rosa_sim.cell.layout.hardware import SORT_PARTS, cell
from rosa_sim.cell.layout.mjcf import box, camera, numbers
from rosa_sim.cell.layout.pieces import bin_body, block_body, ground
from rosa_sim.cell.layout.sort_names import BINS, BLOCKS

SKIN, SLEEVE = ("palm", "thumb", "finger0", "finger1", "finger2", "finger3"), "sleeve"
TAPES = ("tape_front", "tape_left", "tape_right")
_SEEN_ONLY = {"contype": "0", "conaffinity": "0", "mass": "0.01"}


def pieces() -> list[ET.Element]:
    """A table with a taped zone, a mat, two bins, two fixed cameras, three blocks and a person's hand."""
    c = cell(SORT_PARTS)
    inner = (c["bins"]["inner_half_x"], c["bins"]["inner_half_y"])
    bins = [
        bin_body(f"{name}_bin", inner, c["bins"], f"0.5 {side} 0")
        for name, side in zip(BINS, (0.23, -0.23), strict=True)
    ]
    cameras = [camera(name, c["cameras"][name]) for name in ("front", "overview")]
    blocks = [block_body(name, c["blocks"]["half_size"], c["blocks"]["mass_kg"]) for name in BLOCKS]
    return [*ground(c), *_tapes(), *bins, *cameras, *blocks, _hand()]


def _tapes() -> list[ET.Element]:
    zone = cell(SORT_PARTS)["workcell"]
    (x0, x1), (_, y1), half = zone["x"], zone["y"], zone["tape_width"] / 2
    front = box(TAPES[0], (x1, 0, 0), (half, y1, 0.0005), **_SEEN_ONLY)
    sides = [
        box(name, ((x0 + x1) / 2, side * y1, 0), ((x1 - x0) / 2, half, 0.0005), **_SEEN_ONLY)
        for name, side in zip(TAPES[1:], (1, -1), strict=True)
    ]
    return [front, *sides]


def _hand() -> ET.Element:
    """A hand with its forearm that touches nothing: three slides, so that its place is part of the state.

    The origin is the tip of the middle finger, x the way it points; how it is turned is the variation's.
    """
    hand = ET.Element("body", name="hand", pos="0 0 0", gravcomp="1")
    for axis, direction in (("x", "1 0 0"), ("y", "0 1 0"), ("z", "0 0 1")):
        ET.SubElement(hand, "joint", name=f"hand_{axis}", type="slide", axis=direction, armature="1")
    turned = ET.SubElement(hand, "body", name="forearm", gravcomp="1")
    turned.append(box("palm", (-0.125, 0, 0), (0.045, 0.042, 0.015), **_SEEN_ONLY))
    for number, (side, tip) in enumerate(((0.033, -0.012), (0.011, 0.0), (-0.011, -0.004), (-0.033, -0.025))):
        turned.append(_capsule(f"finger{number}", (tip, side, 0), (-0.09, side, 0), 0.0095))
    turned.append(_capsule("thumb", (-0.075, 0.075, -0.01), (-0.13, 0.035, 0), 0.011))
    turned.append(_capsule(SLEEVE, (-0.19, 0, 0), (-0.55, 0, 0), 0.042))
    return hand


def _capsule(
    name: str, start: tuple[float, float, float], end: tuple[float, float, float], radius: float
) -> ET.Element:
    return ET.Element(
        "geom",
        {
            "name": name,
            "type": "capsule",
            "fromto": numbers([*start, *end]),
            "size": f"{radius}",
            **_SEEN_ONLY,
        },
    )
