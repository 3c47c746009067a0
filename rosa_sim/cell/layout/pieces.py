"""What stands in a cell besides the arm, and what of it the pick-and-place cell has."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from rosa_sim.cell.layout.hardware import cell
from rosa_sim.cell.layout.mjcf import box, camera

DISTRACTORS = ("cylinder", "sphere", "disc")


def pieces() -> list[ET.Element]:
    """Pick-and-place: a table, a mat, a bin, two fixed cameras, a cube and three distractors."""
    c = cell()
    inner = c["bin"]["inner_half_size"]
    cameras = [camera(name, c["cameras"][name]) for name in ("front", "overview")]
    return [*ground(c), bin_body("bin", (inner, inner), c["bin"], "0.5 0.3 0"), *cameras, *_loose_objects()]


def ground(c: dict[str, Any]) -> list[ET.Element]:
    """Table, mat and floor of the scene `c`."""
    (x0, x1), (y0, y1) = c["table"]["x"], c["table"]["y"]
    thick = c["table"]["thickness"]
    table = box(
        "table", ((x0 + x1) / 2, (y0 + y1) / 2, -thick / 2), ((x1 - x0) / 2, (y1 - y0) / 2, thick / 2)
    )
    table.set("material", "table")
    (x0, x1), (y0, y1) = c["mat"]["x"], c["mat"]["y"]
    mat = box("mat", ((x0 + x1) / 2, (y0 + y1) / 2, 0.0), ((x1 - x0) / 2, (y1 - y0) / 2, 0.0006))
    for key, value in {"contype": "0", "conaffinity": "0", "material": "mat"}.items():
        mat.set(key, value)
    floor = ET.Element(
        "geom",
        name="floor",
        type="plane",
        pos=f"0 0 {c['table']['floor_z']}",
        size="3 3 0.1",
        material="floor",
    )
    return [table, mat, floor]


def bin_body(name: str, inner: tuple[float, float], b: dict[str, Any], at: str) -> ET.Element:
    """A bin with inner half sizes `inner` (x, y) and the `wall` and `height` of `b`, m."""
    (half_x, half_y), wall, height = inner, b["wall"], b["height"]
    body = ET.Element("body", name=name, pos=at)
    for side, sx, sy in (("x0", -1, 0), ("x1", 1, 0), ("y0", 0, -1), ("y1", 0, 1)):
        middle = ((half_x + wall / 2) * sx, (half_y + wall / 2) * sy, height / 2)
        size = (wall / 2 if sx else half_x + wall, wall / 2 if sy else half_y + wall, height / 2)
        body.append(box(f"{name}_{side}", middle, size, material="bin"))
    body.append(box(f"{name}_floor", (0, 0, 0.001), (half_x, half_y, 0.001), material="bin"))
    return body


def block_body(name: str, half: float, mass_kg: float) -> ET.Element:
    """A cube that moves freely, with half size `half` m."""
    body = ET.Element("body", name=name, pos="0.5 0 0.02")
    ET.SubElement(body, "freejoint", name=name)
    body.append(box(name, (0, 0, 0), (half, half, half), mass=str(mass_kg), condim="4"))
    body[-1].set("friction", "1.2 0.02 0.001")
    return body


def _loose_objects() -> list[ET.Element]:
    """The cube and the distractors: free bodies, in this order in qpos."""
    c = cell()
    bodies = [block_body("cube", c["cube"]["half_size"], c["cube"]["mass_kg"])]
    for number, name in enumerate(DISTRACTORS):
        shape = c["distractors"][name]
        body = ET.Element("body", name=name, pos=f"2 {number} -0.6")
        ET.SubElement(body, "freejoint", name=name)
        kind = "sphere" if name == "sphere" else "cylinder"
        size = f"{shape['radius']}" + (f" {shape['half_height']}" if kind == "cylinder" else "")
        rolling = {"condim": "6", "friction": "0.9 0.02 0.005"}
        ET.SubElement(body, "geom", {"name": name, "type": kind, "size": size, "mass": "0.04", **rolling})
        bodies.append(body)
    return bodies
