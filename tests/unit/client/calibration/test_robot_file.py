"""The result goes into the robot file; every comment and every other value stays."""

from __future__ import annotations

import difflib
from pathlib import Path

import cv2
import numpy as np
import pytest

from rosa_client.calibration.errors import CalibrationError
from rosa_client.calibration.robot_file import (
    intrinsics_mapping,
    pose_mapping,
    pose_of,
    quaternion_of,
    with_value,
    write_value,
)
from rosa_contract.config.cameras import Intrinsics
from rosa_contract.config.robot import load_robot
from tests.unit.client.calibration.scenes import ROOT

TEXT = (ROOT / "configs" / "robots" / "panda.yaml").read_text()
LENS = Intrinsics(113.25, 113.5, 47.5, 48.25, (-0.1, 0.02, 0.001, -0.002, 0.003))


def changed(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if line[0] in "+-" and not line.startswith(("---", "+++"))]


def test_a_new_value_is_one_more_line(tmp_path: Path) -> None:
    path = tmp_path / "robot.yaml"
    path.write_text(TEXT)
    write_value(path, "front", "intrinsics", intrinsics_mapping(LENS))
    [line] = changed(TEXT, path.read_text())
    assert line.startswith("+    intrinsics: {fx: 113.25,")
    assert load_robot(path).cameras["front"].intrinsics == LENS
    assert load_robot(path).cameras["wrist"].intrinsics is None


def test_an_old_value_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "robot.yaml"
    path.write_text(TEXT)
    mount = np.eye(4)
    mount[:3, :3] = cv2.Rodrigues(np.array([0.1, -2.0, 0.4]))[0]
    mount[:3, 3] = 0.123456, -0.5, 0.25
    write_value(path, "wrist", "pose", pose_mapping(pose_of("panda_hand", mount)))
    for _ in range(2):  # also in the form in which it was written
        pose = load_robot(path).cameras["wrist"].pose
        assert pose is not None and pose.parent == "panda_hand"
        assert pose.xyz_m == pytest.approx((0.12346, -0.5, 0.25), abs=1e-5)
        assert pose.quaternion == pytest.approx(quaternion_of(mount[:3, :3]), abs=1e-5)
        write_value(path, "wrist", "pose", pose_mapping(pose))
    comments = [line for line in TEXT.splitlines() if "#" in line]
    assert [line for line in path.read_text().splitlines() if "#" in line] == comments
    assert (
        load_robot(path).cameras["front"].pose
        == load_robot(ROOT / "configs/robots/panda.yaml").cameras["front"].pose
    )


@pytest.mark.parametrize(
    "own", ["", "cameras:\n  wrist:\n    rate_hz: 10\n", "cameras: {wrist: {rate_hz: 10}}\n"]
)
def test_a_file_that_extends_another_one_gets_the_value_and_the_other_one_stays(
    own: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"# Mine.\nextends: rosa:panda.yaml\n{own}")
    for lens in (LENS, Intrinsics(100.0, 100.0, 47.5, 48.25)):  # also in the form in which it was written
        write_value(path, "front", "intrinsics", intrinsics_mapping(lens))
        assert load_robot(path).cameras["front"].intrinsics == lens
    assert path.read_text().startswith("# Mine.\nextends: rosa:panda.yaml\n")
    assert load_robot(path).cameras["wrist"].rate_hz == (10.0 if own else 20.0)
    with pytest.raises(CalibrationError):
        write_value(path, "nobodys", "intrinsics", intrinsics_mapping(LENS))


@pytest.mark.parametrize(
    "text",
    [
        "cameras:\n  front: {width: 96, height: 96}  # in one line\nz: 1\n",
        "cameras: {front: {width: 96, height: 96}}\n",
        "cameras:\n  front:\n    width: 96\n    height: 96  # last of its block",
        "cameras:\n  front:\n    width: 96\n    height: 96\n\n# about the next\nz: 1\n",
    ],
)
def test_every_way_to_write_a_camera(text: str) -> None:
    import yaml

    written = with_value(text, "front", "intrinsics", {"fx": 1.0})
    document = yaml.safe_load(written)
    assert document["cameras"]["front"] == {"width": 96, "height": 96, "intrinsics": {"fx": 1.0}}
    assert [part for part in written.split() if part.startswith("#")] == [
        part for part in text.split() if part.startswith("#")
    ]
    again = with_value(written, "front", "intrinsics", {"fx": 2.0})
    assert yaml.safe_load(again)["cameras"]["front"]["intrinsics"] == {"fx": 2.0}


def test_a_camera_that_is_not_there_is_refused_and_named() -> None:
    with pytest.raises(CalibrationError) as refused:
        with_value(TEXT, "side", "intrinsics", {})
    assert refused.value.cause == "not_written"
    assert "'side'" in str(refused.value) and "front, wrist" in str(refused.value)


def test_a_result_that_the_file_cannot_take_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "robot.yaml"
    path.write_text(TEXT)
    with pytest.raises(CalibrationError) as refused:
        write_value(path, "front", "intrinsics", {"fx": -1.0, "fy": 1.0, "cx": 1.0, "cy": 1.0})
    assert refused.value.cause == "not_written"
    assert path.read_text() == TEXT
    assert list(tmp_path.iterdir()) == [path], "nothing is left behind"


@pytest.mark.parametrize("angle", [0.0, 1e-9, 0.5, 3.0, np.pi])
def test_quaternions(angle: float) -> None:
    turn = np.asarray(cv2.Rodrigues(np.array([0.0, angle, 0.0]))[0])
    assert quaternion_of(turn) == pytest.approx((0, np.sin(angle / 2), 0, np.cos(angle / 2)), abs=1e-9)
