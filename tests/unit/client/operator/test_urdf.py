"""The Panda's model for RViz is the Panda: its kinematics are the models', its limits the robot file's."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from rosa_contract.config.robot import load_robot
from rosa_server.models.panda import kinematics

ROOT = Path(__file__).parents[4]
SPEC = load_robot(ROOT / "configs" / "robots" / "panda.yaml")
MODEL = ET.parse(ROOT / "hardware" / "panda" / "panda.urdf").getroot()
JOINTS = {joint.get("name"): joint for joint in MODEL.iter("joint")}


def numbers(element: ET.Element, name: str) -> np.ndarray:
    return np.array([float(word) for word in element.get(name, "0 0 0").split()])


def origin(joint: ET.Element) -> np.ndarray:
    """`(4, 4)` from xyz and rpy: turns about the fixed x, then y, then z."""
    element = joint.find("origin")
    assert element is not None
    pose = np.eye(4)
    for axis, angle in enumerate(numbers(element, "rpy")):
        a, b = [(1, 2), (2, 0), (0, 1)][axis]
        turn = np.eye(4)
        turn[a, a] = turn[b, b] = np.cos(angle)
        turn[a, b], turn[b, a] = -np.sin(angle), np.sin(angle)
        pose = turn @ pose
    pose[:3, 3] = numbers(element, "xyz")
    return pose


def part(element: ET.Element, tag: str) -> ET.Element:
    found = element.find(tag)
    assert found is not None, f"{element.get('name')} has no {tag}"
    return found


def motion(joint: ET.Element, value: float) -> np.ndarray:
    """`(4, 4)` of a joint that stands at `value`, rad or m."""
    pose = np.eye(4)
    if joint.get("type") == "fixed":
        return pose
    axis = numbers(part(joint, "axis"), "xyz")
    if joint.get("type") == "prismatic":
        pose[:3, 3] = axis * value
        return pose
    assert list(axis) == [0, 0, 1]
    c, s = np.cos(value), np.sin(value)
    pose[:2, :2] = [[c, -s], [s, c]]
    return pose


def place(link: str, at: dict[str, float]) -> np.ndarray:
    """`(4, 4)` of a link in panda_link0."""
    for name, joint in JOINTS.items():
        if part(joint, "child").get("link") == link:
            parent = part(joint, "parent").get("link")
            return place(str(parent), at) @ origin(joint) @ motion(joint, at.get(str(name), 0.0))
    assert link == "panda_link0"
    return np.eye(4)


def test_the_tool_is_where_the_models_kinematics_say() -> None:
    random = np.random.default_rng(3)
    low, high = np.array(SPEC.limits.position_min_rad), np.array(SPEC.limits.position_max_rad)
    for q in [np.array(SPEC.home_rad), np.array(SPEC.safe_rad), *random.uniform(low, high, (50, 7))]:
        pose = place("panda_tool", dict(zip(SPEC.joints, q, strict=True)))
        position, rotation = kinematics.forward(q)
        assert pose[:3, 3] == pytest.approx(position, abs=1e-9)
        assert pose[:3, :3] == pytest.approx(rotation, abs=1e-9)


def test_joints_are_those_of_joint_states_with_the_robots_limits() -> None:
    moving = [name for name, joint in JOINTS.items() if joint.get("type") != "fixed"]
    assert moving == [*SPEC.joints, "panda_finger_joint1", "panda_finger_joint2"]
    limits = [part(JOINTS[name], "limit") for name in SPEC.joints]
    for key, wanted in (
        ("lower", SPEC.limits.position_min_rad),
        ("upper", SPEC.limits.position_max_rad),
        ("velocity", SPEC.limits.velocity_rad_s),
    ):
        assert [float(limit.get(key, "nan")) for limit in limits] == list(wanted)


def test_the_fingers_are_as_far_apart_as_the_gripper_is_wide() -> None:
    for width_m in (SPEC.gripper.min_m, SPEC.gripper.max_m):
        at = {f"panda_finger_joint{i}": width_m / 2 for i in (1, 2)}
        apart = place("panda_finger1", at) - place("panda_finger2", at)
        assert np.linalg.norm(apart[:3, 3]) == pytest.approx(width_m)


def test_the_model_is_one_tree_of_links_that_exist() -> None:
    links = [link.get("name") for link in MODEL.iter("link")]
    children = [part(joint, "child").get("link") for joint in JOINTS.values()]
    assert sorted(links) == sorted(["panda_link0", *children]), "each link hangs on one joint"
    known = {material.get("name") for material in MODEL.findall("material")}
    assert {material.get("name") for material in MODEL.iter("material")} == known
