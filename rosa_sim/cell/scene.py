"""The MuJoCo model of a scene: a Panda with its hand, and what stands around it.

The arm's geometry comes from the `dm-robotics-panda` wheel (Apache-2.0). Its visual meshes have 134k faces, so they
are decimated once into a cache: `python -m rosa_sim.cell.scene`. What stands around it a `CellLayout` says;
what differs between the seeds of one is in `Variation`.
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

import mujoco

from rosa_sim.cell.layout.draws import TONES
from rosa_sim.cell.layout.hardware import PICK_PLACE, cell
from rosa_sim.cell.layout.mjcf import camera, numbers, part
from rosa_sim.cell.layout.pieces import pieces

CACHE_VERSION = "1"  # raise it when the decimation or the files below change
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
            assert isinstance(mesh, trimesh.Trimesh)  # with `force`
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
def scene_xml(scene: str = PICK_PLACE) -> str:
    """A whole scene as MJCF."""
    c = cell(scene)
    folder = ensure_scene_cache()
    tones = {name: numbers(tone) for name, tone in TONES.items()}
    root = ET.fromstring(_CELL.format(meshes=folder, step=c.physics_step_s, **tones))
    asset, world, actuator = part(root, "asset"), part(root, "worldbody"), part(root, "actuator")
    for name in _FACES:
        ET.SubElement(asset, "mesh", name=name, file=f"{name}.stl", inertia="shell")
    arm, hand = ET.parse(folder / "panda.xml").getroot(), ET.parse(folder / "panda_hand.xml").getroot()
    base, hand_body = part(arm, "worldbody/body"), part(hand, "worldbody/body")
    for body in (base, hand_body):
        _clean(body)
    flange = base.find(".//body[@name='panda_link8']")
    assert flange is not None
    hand_body.set("quat", "0.9238795 0 0 -0.3826834")  # -45 degrees about z
    hand_body.append(camera("wrist", c.cameras["wrist"]))
    palm = {"type": "box", "pos": "0 0 0.033", "size": "0.03 0.1 0.032", "group": "5"}
    ET.SubElement(hand_body, "geom", {"name": "hand_collision", **palm})
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
    for piece in pieces(c):
        world.append(piece)
    return ET.tostring(root, encoding="unicode")


def load_model(scene: str = PICK_PLACE) -> mujoco.MjModel:
    """Compile a scene (about 0.3 s)."""
    return mujoco.MjModel.from_xml_string(scene_xml(scene))


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
    <material name="table" rgba="{table} 1" specular="0.1"/>
    <material name="mat" rgba="{mat} 1" specular="0"/>
    <material name="bin" rgba="{bin} 1" specular="0.1"/>
    <material name="floor" rgba="{floor} 1" specular="0"/>
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
