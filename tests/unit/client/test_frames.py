"""Every camera with a pose is in TF under the frame of its pictures; several robots share one tree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rosa_client.frames import links_of, optical_frame, prefix_of, static_transforms, without_pose
from rosa_client.nodes.robot.static_frames import stamped
from rosa_client.operator.layout import Base
from rosa_contract.config.robot import load_robot

ROOT = Path(__file__).parents[3]
SPEC = load_robot(ROOT / "configs" / "robots" / "panda.yaml")


def test_a_cameras_frame_is_the_child_of_its_link_with_the_robots_prefix() -> None:
    found = {one.child: one for one in static_transforms("/left", SPEC, None, "left/")}
    assert set(found) == {optical_frame("/left", "front"), optical_frame("left/", "wrist")}
    wrist = found["left/wrist_optical_frame"]
    assert wrist.parent == "left/panda_hand"
    assert wrist.xyz_m == (0.085, 0.0, 0.005)


def test_links_that_another_launch_publishes_have_no_prefix_but_our_cameras_do() -> None:
    [front, _] = static_transforms("/left", SPEC, None, "")
    assert (front.parent, front.child) == ("panda_link0", "left/front_optical_frame")


def test_a_robot_whose_place_is_known_stands_in_the_world() -> None:
    base, *_ = static_transforms("/left", SPEC, Base(1.0, 2.0, 0.5, 3.141592653589793), "left/")
    assert (base.parent, base.child, base.xyz_m) == ("world", "left/panda_link0", (1.0, 2.0, 0.5))
    assert base.quaternion_xyzw == pytest.approx((0, 0, 1, 0), abs=1e-9)


def test_a_camera_without_a_pose_is_named_and_not_placed_anywhere() -> None:
    cameras = {**SPEC.cameras, "front": replace(SPEC.cameras["front"], pose=None)}
    moved = replace(SPEC, cameras=cameras)
    assert without_pose(moved) == ["front"]
    assert [one.child for one in static_transforms("a", moved, None, "a/")] == ["a/wrist_optical_frame"]


def test_every_camera_hangs_on_a_link_of_the_shipped_description() -> None:
    links = links_of((ROOT / "hardware" / "panda" / "panda.urdf").read_text())
    assert links[0] == "panda_link0"
    for camera in SPEC.cameras.values():
        assert camera.pose is not None and camera.pose.parent in links


def test_without_a_namespace_there_is_no_prefix() -> None:
    assert prefix_of("/") == ""
    assert optical_frame("/", "front") == "front_optical_frame"


def test_a_transform_as_a_message_has_all_its_parts() -> None:
    from builtin_interfaces.msg import Time

    [front, _] = static_transforms("left", SPEC, None, "left/")
    message = stamped(front, Time(sec=7))
    assert (message.header.frame_id, message.child_frame_id) == (
        "left/panda_link0",
        "left/front_optical_frame",
    )
    at = message.transform.translation
    assert (at.x, at.y, at.z) == (1.02, 0.06, 0.80)
    turn = message.transform.rotation
    assert (turn.x, turn.y, turn.z, turn.w) == pytest.approx(
        (0.682192, 0.669442, -0.205949, -0.209872), abs=1e-6
    )
