"""What stands in a cell besides the arm, as MJCF, from the cell's layout."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from rosa_sim.cell.layout.hand import hand_body
from rosa_sim.cell.layout.hardware import SIDES, CellLayout
from rosa_sim.cell.layout.mjcf import SEEN_ONLY, box, camera

TAPES = ("tape_front", "tape_left", "tape_right")


def pieces(c: CellLayout) -> list[ET.Element]:
    """A table with a mat, bins, fixed cameras and blocks; where the layout has them a taped zone, distractors, a hand.

    Blocks, distractors and the hand move, in this order in qpos.
    """
    bins = [_bin(f"{side}_bin", c, f"0.5 {0.3 * SIDES[side]} 0") for side in c.bin_names]
    cameras = [camera(name, c.cameras[name]) for name in ("front", "overview")]
    blocks = [_block(name, c) for name in c.block_names]
    hand = [] if c.hand is None else [hand_body()]
    return [*_ground(c), *_tapes(c), *bins, *cameras, *blocks, *_distractors(c), *hand]


def _ground(c: CellLayout) -> list[ET.Element]:
    """Table, mat and floor."""
    (x0, x1), (y0, y1) = c.table["x"], c.table["y"]
    thick = c.table["thickness"]
    table = box(
        "table", ((x0 + x1) / 2, (y0 + y1) / 2, -thick / 2), ((x1 - x0) / 2, (y1 - y0) / 2, thick / 2)
    )
    table.set("material", "table")
    (x0, x1), (y0, y1) = c.mat["x"], c.mat["y"]
    mat = box("mat", ((x0 + x1) / 2, (y0 + y1) / 2, 0.0), ((x1 - x0) / 2, (y1 - y0) / 2, 0.0006))
    for key, value in {"contype": "0", "conaffinity": "0", "material": "mat"}.items():
        mat.set(key, value)
    at = f"0 0 {c.table['floor_z']}"
    floor = ET.Element("geom", name="floor", type="plane", pos=at, size="3 3 0.1", material="floor")
    return [table, mat, floor]


def _tapes(c: CellLayout) -> list[ET.Element]:
    """What marks the zone that nobody may reach into while the arm moves."""
    if c.workcell is None:
        return []
    (x0, x1), (_, y1), half = c.workcell["x"], c.workcell["y"], c.workcell["tape_width"] / 2
    front = box(TAPES[0], (x1, 0, 0), (half, y1, 0.0005), **SEEN_ONLY)
    sides = [
        box(name, ((x0 + x1) / 2, side * y1, 0), ((x1 - x0) / 2, half, 0.0005), **SEEN_ONLY)
        for name, side in zip(TAPES[1:], (1, -1), strict=True)
    ]
    return [front, *sides]


def _bin(name: str, c: CellLayout, at: str) -> ET.Element:
    (half_x, half_y), wall, height = c.bins["inner_half"], c.bins["wall"], c.bins["height"]
    body = ET.Element("body", name=name, pos=at)
    for side, sx, sy in (("x0", -1, 0), ("x1", 1, 0), ("y0", 0, -1), ("y1", 0, 1)):
        middle = ((half_x + wall / 2) * sx, (half_y + wall / 2) * sy, height / 2)
        size = (wall / 2 if sx else half_x + wall, wall / 2 if sy else half_y + wall, height / 2)
        body.append(box(f"{name}_{side}", middle, size, material="bin"))
    body.append(box(f"{name}_floor", (0, 0, 0.001), (half_x, half_y, 0.001), material="bin"))
    return body


def _block(name: str, c: CellLayout) -> ET.Element:
    half = c.blocks["half_size"]
    body = ET.Element("body", name=name, pos="0.5 0 0.02")
    ET.SubElement(body, "freejoint", name=name)
    body.append(box(name, (0, 0, 0), (half, half, half), mass=str(c.blocks["mass_kg"]), condim="4"))
    body[-1].set("friction", "1.2 0.02 0.001")
    return body


def _distractors(c: CellLayout) -> list[ET.Element]:
    bodies = []
    for number, (name, shape) in enumerate(c.shapes.items()):
        body = ET.Element("body", name=name, pos=f"2 {number} -0.6")
        ET.SubElement(body, "freejoint", name=name)
        kind = "cylinder" if "half_height" in shape else "sphere"
        size = f"{shape['radius']}" + (f" {shape['half_height']}" if kind == "cylinder" else "")
        rolling = {"condim": "6", "friction": "0.9 0.02 0.005"}
        ET.SubElement(body, "geom", {"name": name, "type": kind, "size": size, "mass": "0.04", **rolling})
        bodies.append(body)
    return bodies
