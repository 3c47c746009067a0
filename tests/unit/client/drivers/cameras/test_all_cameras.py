"""Each camera has the driver that the robot file names; what cannot start says which device or file is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from rosa_client.drivers import DriverError
from rosa_client.drivers.cameras import AllCameras, by_driver
from rosa_client.drivers.cameras.v4l2 import opened_device, parse_source
from rosa_contract.config.cameras import CameraSpec
from rosa_contract.config.robot import RobotSpec, load_robot

ROOT = Path(__file__).parents[5]
SPEC = load_robot(ROOT / "configs" / "robots" / "panda.yaml")


def robot(**cameras: CameraSpec) -> RobotSpec:
    return replace(SPEC, cameras=cameras)


def recorded(folder: Path, name: str, level: int) -> CameraSpec:
    (folder / name).mkdir()
    cv2.imwrite(str(folder / name / "0.png"), np.full((48, 64, 3), level, np.uint8))
    return CameraSpec(width=64, height=48, driver="replay", source=str(folder))


def test_cameras_are_grouped_by_their_drivers_and_external_ones_are_nobodys() -> None:
    plain = CameraSpec(width=64, height=48)
    mixed = robot(a=plain, b=replace(plain, driver="v4l2"), c=replace(plain, driver="external"))
    assert {name: list(group) for name, group in by_driver(mixed).items()} == {"mujoco": ["a"], "v4l2": ["b"]}
    assert list(by_driver(mixed, "replay")["replay"]) == ["a", "b", "c"], "an argument decides for all"


def test_each_camera_reads_its_own_source(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    both = robot(dark=recorded(tmp_path / "x", "dark", 10), bright=recorded(tmp_path / "y", "bright", 200))
    cameras = AllCameras(both, None)
    frames = cameras.frames()
    assert cameras.names == ["dark", "bright"]
    assert frames["dark"].rgb[:, :-1].max() == 10 and frames["bright"].rgb[:, :-1].min() == 200
    cameras.close()


def test_a_folder_without_pictures_is_named(tmp_path: Path) -> None:
    lacking = robot(front=CameraSpec(width=64, height=48, driver="replay", source=str(tmp_path)))
    with pytest.raises(DriverError, match=f"replay: expected {tmp_path}/front.mp4"):
        AllCameras(lacking, None)


def test_a_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match=f"v4l2: camera front: no device {tmp_path}/video9; there are: "):
        opened_device("front", f"{tmp_path}/video9")


def test_a_file_that_is_no_camera_is_named(tmp_path: Path) -> None:
    (tmp_path / "video0").touch()
    with pytest.raises(DriverError, match="video0 cannot be opened as a camera; does another program use it"):
        opened_device("front", f"{tmp_path}/video0")


def test_a_camera_without_a_device_is_told_which_key_to_set() -> None:
    cameras = {"front": CameraSpec(width=64, height=48, driver="v4l2")}
    with pytest.raises(DriverError, match=r"set cameras\.front\.source, such as /dev/video0"):
        parse_source("", cameras)
    there = {"front": replace(cameras["front"], source="/dev/video4")}
    assert parse_source("", there) == {"front": "/dev/video4"}
