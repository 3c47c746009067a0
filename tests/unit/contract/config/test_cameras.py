"""A camera of a robot file: driver, lens and mounting; each mistake is named with its path and cause."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_contract.config.cameras import quaternion_of
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.errors import ConfigError

ROOT = Path(__file__).parents[4]
PANDA = ROOT / "configs" / "robots" / "panda.yaml"
LENS = {"fx": 610.0, "fy": 611.0, "cx": 320.0, "cy": 241.0}


def with_front(folder: Path, robot: dict[str, Any] | None = None, **front: Any) -> RobotSpec:
    """The Panda with another front camera."""
    page = yaml.safe_load(PANDA.read_text()) | (robot or {})
    page["cameras"] = {"front": {"width": 640, "height": 480, **front}}
    path = folder / "robot.yaml"
    path.write_text(yaml.safe_dump(page))
    return load_robot(path)


def test_a_camera_without_a_driver_has_the_robots(tmp_path: Path) -> None:
    assert with_front(tmp_path).camera_driver_of("front") == "mujoco"
    assert with_front(tmp_path, driver="v4l2", source="/dev/video0").camera_driver_of("front") == "v4l2"


def test_no_driver_is_chosen_where_the_file_names_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        with_front(tmp_path, {"camera_driver": ""})
    [problem] = caught.value.problems
    assert (problem.path, problem.cause) == ("cameras.front.driver", "missing")


@pytest.mark.parametrize(
    ("distortion", "model"),
    [
        ([], "plumb_bob"),
        ([0.1] * 4, "plumb_bob"),
        ([0.1] * 5, "plumb_bob"),
        ([0.1] * 8, "rational_polynomial"),
    ],
)
def test_the_number_of_coefficients_says_the_distortion_model(
    tmp_path: Path, distortion: list[float], model: str
) -> None:
    lens = with_front(tmp_path, intrinsics={**LENS, "distortion": distortion}).cameras["front"].intrinsics
    assert lens is not None
    assert lens.model == model


def test_a_pose_is_a_quaternion_or_turns_about_the_axes(tmp_path: Path) -> None:
    at = {"parent": "panda_hand", "xyz_m": [0, 0, 0]}
    turned = with_front(tmp_path, pose={**at, "rpy_rad": [0, 0, math.pi / 2]}).cameras["front"].pose
    assert turned is not None
    assert turned.quaternion == pytest.approx((0, 0, math.sqrt(0.5), math.sqrt(0.5)))
    rounded = (
        with_front(tmp_path, pose={**at, "quaternion_xyzw": [0.7071, 0, 0, 0.7071]}).cameras["front"].pose
    )
    assert rounded is not None
    assert math.hypot(*rounded.quaternion) == pytest.approx(1.0, abs=1e-12)


def test_turns_are_about_fixed_axes_x_first() -> None:
    x, y, z, w = quaternion_of(0.3, -0.5, 1.1)
    # Rz(yaw) Ry(pitch) Rx(roll), of which the third row and the first column are short.
    assert 2 * (x * z - w * y) == pytest.approx(-math.sin(-0.5))
    assert 2 * (y * z + w * x) == pytest.approx(math.cos(-0.5) * math.sin(0.3))
    assert 2 * (x * y + w * z) == pytest.approx(math.sin(1.1) * math.cos(-0.5))


@pytest.mark.parametrize(
    ("front", "path", "cause"),
    [
        ({"intrinsics": {**LENS, "distortion": [0.1] * 3}}, "intrinsics.distortion", "wrong_length"),
        ({"intrinsics": {**LENS, "cx": 960.0}}, "intrinsics.cx", "conflict"),
        ({"intrinsics": {**LENS, "fx": 0}}, "intrinsics.fx", "out_of_range"),
        ({"pose": {"parent": "panda_hand", "xyz_m": [0, 0, 0]}}, "pose", "missing"),
        (
            {
                "pose": {
                    "parent": "a",
                    "xyz_m": [0, 0, 0],
                    "rpy_rad": [0, 0, 0],
                    "quaternion_xyzw": [0, 0, 0, 1],
                }
            },
            "pose",
            "conflict",
        ),
        (
            {"pose": {"parent": "a", "xyz_m": [0, 0, 0], "quaternion_xyzw": [1, 0, 0, 1]}},
            "pose.quaternion_xyzw",
            "out_of_range",
        ),
        ({"pose": {"parent": "", "xyz_m": [0, 0, 0], "rpy_rad": [0, 0, 0]}}, "pose.parent", "missing"),
        ({"pose": {"parent": "a", "xyz_m": [0, 0], "rpy_rad": [0, 0, 0]}}, "pose.xyz_m", "wrong_length"),
        ({"quality": 80, "min_quality": 81}, "min_quality", "out_of_range"),
        ({"encoding": "png", "min_quality": 50}, "min_quality", "conflict"),
        ({"min_quality": 0}, "min_quality", "out_of_range"),
    ],
)
def test_a_mistake_in_lens_mounting_or_quality_is_named(
    tmp_path: Path, front: dict[str, Any], path: str, cause: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        with_front(tmp_path, **front)
    [problem] = caught.value.problems
    assert (problem.path, problem.cause) == (f"cameras.front.{path}", cause), str(caught.value)
