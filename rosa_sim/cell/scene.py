"""The MuJoCo model of the cell: a Panda with its hand, a table, a bin, a cube and three distractors.

The arm's geometry comes from the `dm-robotics-panda` wheel (Apache-2.0). Its visual meshes have 134k faces, so they
are decimated once into a cache: `python -m rosa_sim.cell.scene`. What differs between seeds is in `variation.py`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from rosa_sim.cell.hardware import cell

CACHE_VERSION = "1"  # raise it when the decimation or the files below change
DISTRACTORS = ("cylinder", "sphere", "disc")
_FACES = {"hand": 900, "finger": 250} | {f"link{i}": 900 for i in range(8)}
_ARM_SERVO = [(6000.0, 500.0)] * 4 + [(3000.0, 250.0)] * 3  # (stiffness, damping): ours, not identified


def cache_dir() -> Path:
    """Where decimated meshes live: `.cache/panda/<version>` of a checkout, else below `~/.cache/rosa`."""
    root = Path(__file__).resolve().parents[2]
    override = os.environ.get("ROSA_CACHE_DIR", "")
    if override:
        base = Path(override)
    elif (root / "hardware").is_dir() and os.access(root, os.W_OK):
        base = root / ".cache"
    else:
        base = Path.home() / ".cache" / "rosa"
    return base / "panda" / CACHE_VERSION


def ensure_scene_cache(progress: Callable[[str], None] = lambda line: None) -> Path:
    """Build the mesh cache if it is not there; returns its folder. Safe to call from several processes."""
    target = cache_dir()
    if (target / "panda.xml").is_file():
        return target
    import trimesh  # needed at set-up only

    source = _wheel_assets()
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix="building-"))
    try:
        for number, (name, faces) in enumerate(_FACES.items(), start=1):
            mesh = trimesh.load(source / f"{name}.obj", force="mesh", skip_materials=True)
            before = len(mesh.faces)
            mesh.merge_vertices(merge_tex=True, merge_norm=True)
            if before > faces:
                mesh = mesh.simplify_quadric_decimation(face_count=faces)
            mesh.export(scratch / f"{name}.stl")
            progress(f"[{number}/{len(_FACES)}] {name}: {before} -> {len(mesh.faces)} faces")
        for name in ("panda_hand.xml", "NOTICE", "panda.xml"):
            shutil.copy(source / name, scratch / name)
        try:
            scratch.rename(target)
        except OSError:  # another process finished first
            if not (target / "panda.xml").is_file():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _wheel_assets() -> Path:
    spec = importlib.util.find_spec("dm_robotics")
    for place in spec.submodule_search_locations or [] if spec else []:
        folder = Path(place) / "panda" / "assets" / "panda"
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        "the Panda's meshes are missing: pip install --no-deps dm-robotics-panda==0.4.8 (set-up does this)"
    )


@cache
def scene_xml() -> str:
    """The whole cell as MJCF."""
    folder = ensure_scene_cache()
    root = ET.fromstring(_CELL.format(meshes=folder, step=cell()["physics_step_s"]))
    asset, world, actuator = _part(root, "asset"), _part(root, "worldbody"), _part(root, "actuator")
    for name in _FACES:
        ET.SubElement(asset, "mesh", name=name, file=f"{name}.stl", inertia="shell")
    arm, hand = ET.parse(folder / "panda.xml").getroot(), ET.parse(folder / "panda_hand.xml").getroot()
    base, hand_body = _part(arm, "worldbody/body"), _part(hand, "worldbody/body")
    for body in (base, hand_body):
        _clean(body)
    flange = base.find(".//body[@name='panda_link8']")
    assert flange is not None
    hand_body.set("quat", "0.9238795 0 0 -0.3826834")  # -45 degrees about z
    wrist = cell()["cameras"]["wrist"]
    hand_body.append(_camera("wrist", wrist))
    box = {"type": "box", "pos": "0 0 0.033", "size": "0.03 0.1 0.032", "group": "5"}
    ET.SubElement(hand_body, "geom", name="hand_collision", **box)
    flange.append(hand_body)
    world.append(base)
    for equality in hand.findall("equality"):
        root.append(equality)
    for tendon in hand.findall("tendon"):
        root.append(tendon)
    for i, (stiffness, damping) in enumerate(_ARM_SERVO, start=1):
        ET.SubElement(
            actuator, "position", name=f"arm{i}", joint=f"panda_joint{i}", kp=f"{stiffness}", kv=f"{damping}"
        )
    # The hand closes until something stops it: a servo on the mean finger position, 0..0.04 m, at most 60 N.
    ET.SubElement(
        actuator, "position", name="gripper", tendon="split", kp="3000", kv="120", forcerange="-60 60"
    )
    for part in _pieces():
        world.append(part)
    return ET.tostring(root, encoding="unicode")


def load_model() -> mujoco.MjModel:
    """Compile the cell (about 0.3 s)."""
    return mujoco.MjModel.from_xml_string(scene_xml())


def look_at(position: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Camera axes at `position` (3,) looking at `target` (3,): rotation (3, 3) with columns right, up, backwards."""
    backwards = (position - target) / np.linalg.norm(position - target)
    hint = np.array([0.0, 0.0, 1.0]) if abs(backwards[2]) < 0.95 else np.array([1.0, 0.0, 0.0])
    right = np.cross(hint, backwards)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(backwards, right), backwards], axis=1)


def _clean(body: ET.Element) -> None:
    """Our materials, plausible joints (one of the wheel's dampings is negative), visual meshes without collision."""
    for joint in body.iter("joint"):
        if joint.get("axis") == "0 0 1":
            joint.set("damping", "0.05")
            joint.set("armature", "0.1")
            joint.set("frictionloss", "0.1")
    for geom in body.iter("geom"):
        if geom.get("type") == "mesh":
            dark = geom.get("mesh") in ("finger",)
            geom.set("material", "arm_dark" if dark else "arm_white")
            geom.set("contype", "0")
            geom.set("conaffinity", "0")
        else:
            geom.set("friction", "1.5 0.05 0.001")
            geom.set("condim", "4")
    for parent in body.iter():
        for site in [child for child in parent if child.tag == "site" and child.get("name") == "wrist_site"]:
            parent.remove(site)
    for site in body.iter("site"):
        site.set("group", "5")  # not drawn


def _pieces() -> list[ET.Element]:
    c = cell()
    (x0, x1), (y0, y1) = c["table"]["x"], c["table"]["y"]
    thick = c["table"]["thickness"]
    table = _box(
        "table", ((x0 + x1) / 2, (y0 + y1) / 2, -thick / 2), ((x1 - x0) / 2, (y1 - y0) / 2, thick / 2)
    )
    table.set("material", "table")
    (x0, x1), (y0, y1) = c["mat"]["x"], c["mat"]["y"]
    mat = _box("mat", ((x0 + x1) / 2, (y0 + y1) / 2, 0.0), ((x1 - x0) / 2, (y1 - y0) / 2, 0.0006))
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
    b = c["bin"]
    inner, wall, height = b["inner_half_size"], b["wall"], b["height"]
    bin_body = ET.Element("body", name="bin", pos="0.5 0.3 0")
    for name, sx, sy in (("x0", -1, 0), ("x1", 1, 0), ("y0", 0, -1), ("y1", 0, 1)):
        at = ((inner + wall / 2) * sx, (inner + wall / 2) * sy, height / 2)
        size = (wall / 2 if sx else inner + wall, wall / 2 if sy else inner + wall, height / 2)
        bin_body.append(_box(f"bin_{name}", at, size, material="bin"))
    bin_body.append(_box("bin_floor", (0, 0, 0.001), (inner, inner, 0.001), material="bin"))
    cameras = [_camera(name, c["cameras"][name]) for name in ("front", "overview")]
    return [table, mat, floor, bin_body, *cameras, *_loose_objects()]


def _loose_objects() -> list[ET.Element]:
    """The cube and the distractors: free bodies, in this order in qpos."""
    c = cell()
    half = c["cube"]["half_size"]
    cube = ET.Element("body", name="cube", pos="0.5 0 0.02")
    ET.SubElement(cube, "freejoint", name="cube")
    cube.append(_box("cube", (0, 0, 0), (half, half, half), mass=str(c["cube"]["mass_kg"]), condim="4"))
    cube[-1].set("friction", "1.2 0.02 0.001")
    bodies = [cube]
    for number, name in enumerate(DISTRACTORS):
        shape = c["distractors"][name]
        body = ET.Element("body", name=name, pos=f"2 {number} -0.6")
        ET.SubElement(body, "freejoint", name=name)
        kind = "sphere" if name == "sphere" else "cylinder"
        size = f"{shape['radius']}" + (f" {shape['half_height']}" if kind == "cylinder" else "")
        rolling = {"condim": "6", "friction": "0.9 0.02 0.005"}
        ET.SubElement(body, "geom", name=name, type=kind, size=size, mass="0.04", **rolling)
        bodies.append(body)
    return bodies


def _camera(name: str, camera: dict[str, Any]) -> ET.Element:
    position = np.array(camera["position"])
    axes = look_at(position, np.array(camera["look_at"]))
    xyaxes = _numbers(np.concatenate([axes[:, 0], axes[:, 1]]))
    return ET.Element(
        "camera", name=name, pos=_numbers(position), xyaxes=xyaxes, fovy=str(camera["fovy_deg"])
    )


def _box(name: str, at: Any, half: Any, **more: str) -> ET.Element:
    return ET.Element("geom", name=name, type="box", pos=_numbers(at), size=_numbers(half), **more)


def _numbers(values: Any) -> str:
    return " ".join(f"{float(value):.6g}" for value in values)


def _part(root: ET.Element, path: str) -> ET.Element:
    found = root.find(path)
    if found is None:
        raise ValueError(f"MJCF of dm-robotics-panda has no <{path}>: expected version 0.4.8")
    return found


_CELL = """
<mujoco model="rosa_panda_cell">
  <compiler angle="radian" meshdir="{meshes}"/>
  <option timestep="{step}" integrator="implicitfast" cone="elliptic" impratio="5"/>
  <size memory="16M"/>
  <visual><quality offsamples="0" shadowsize="0"/><global offwidth="1280" offheight="960"/><map znear="0.005"/></visual>
  <statistic center="0.4 0 0.2" extent="1.5"/>
  <asset>
    <material name="arm_white" rgba="0.93 0.93 0.93 1" specular="0.3" shininess="0.4"/>
    <material name="arm_dark" rgba="0.18 0.18 0.2 1" specular="0.3" shininess="0.4"/>
    <material name="table" rgba="0.75 0.66 0.52 1" specular="0.1"/>
    <material name="mat" rgba="0.25 0.27 0.30 1" specular="0"/>
    <material name="bin" rgba="0.55 0.57 0.6 1" specular="0.1"/>
    <material name="floor" rgba="0.42 0.44 0.46 1" specular="0"/>
  </asset>
  <worldbody>
    <light name="key" pos="0.5 0 2" dir="0 0 -1" directional="true" castshadow="false" diffuse="0.6 0.6 0.6"/>
  </worldbody>
  <actuator/>
</mujoco>
"""


if __name__ == "__main__":
    print(f"scene cache: {ensure_scene_cache(lambda line: print(line, flush=True))}")
    sys.exit(0)
