"""`rosa calibrate` against a robot whose camera sees a board: it moves, takes pictures, and writes what is true."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import NodeSpec, Robot, robot_graph
from rosa_contract.config.robot import load_robot
from rosa_sim.ports import free_port
from tests.unit.client.calibration.rendered import LENS, Mount, Stage
from tests.unit.client.calibration.scenes import SMALL, on_table

ROOT = Path(__file__).parents[3]
PATIENCE_S = 240.0
NAME = "calibrated"


def arm_and_camera(robot: Robot) -> list[NodeSpec]:
    return [node for node in robot_graph(robot) if node.executable != "runtime_node"]


@pytest.fixture(scope="module")
def robot_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A robot with its lens and without its camera's place; its arm node and its camera node run."""
    folder = tmp_path_factory.mktemp("calibrate")
    spec = yaml.safe_load((ROOT / "configs" / "robots" / "panda.yaml").read_text())
    lens = {"fx": LENS.fx, "fy": LENS.fy, "cx": LENS.cx, "cy": LENS.cy, "distortion": list(LENS.distortion)}
    wrist = {"width": 640, "height": 480, "rate_hz": 4, "quality": 95, "intrinsics": lens}
    wrist["driver"] = "tests.system.calibrate.board_camera:BoardCamera"
    spec |= {"arm_driver": "echo", "cameras": {"wrist": wrist}}
    path = folder / "robot.yaml"
    path.write_text("# kept\n" + yaml.safe_dump(spec))
    robot = Robot(
        config=str(ROOT / "configs" / "pick_place.yaml"),
        robot=str(path),
        gateway=f"tcp://127.0.0.1:{free_port()}",
        namespace=NAME,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("ROSA_TEST_FOLDER", str(folder))
        with Bringup([robot], logs=folder / "logs", last=True, graph=arm_and_camera):
            yield path


def calibrate(*words: str, said: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rosa_server.cli", "calibrate", *words]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ}, input=said, capture_output=True, text=True, timeout=PATIENCE_S
    )


def test_nothing_moves_without_a_yes(robot_file: Path) -> None:
    ended = calibrate(
        *("hand-eye", str(robot_file), "wrist", "--name", NAME, "--board", str(SMALL), "--auto"),
        *("--parent", "panda_hand", "--save", str(robot_file.parent / "refused")),
        said="no\n",
    )
    assert ended.returncode == 2
    assert "not moved" in ended.stderr
    assert "Keep the emergency stop at hand" in ended.stdout


def test_the_arm_looks_at_the_board_and_the_cameras_place_is_written(
    robot_file: Path, tmp_path: Path
) -> None:
    pictures = robot_file.parent / "pictures"
    ended = calibrate(
        *("hand-eye", str(robot_file), "wrist", "--name", NAME, "--board", str(SMALL), "--auto", "--yes"),
        *("--parent", "panda_hand", "--save", str(pictures), "--distance", "0.38", "--poses", "12"),
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (pictures / "report.png").is_file()
    pose = load_robot(robot_file).cameras["wrist"].pose
    assert pose is not None and pose.parent == "panda_hand"
    stage = Stage(tmp_path, "wrist", SMALL, Mount("world", on_table(SMALL)))
    truth = stage.mount("panda_hand")
    stage.close()
    assert 1000 * np.linalg.norm(np.array(pose.xyz_m) - truth[:3, 3]) < 1.5
    x, y, z, w = pose.quaternion
    angle = 2 * np.arccos(w)
    turn = cv2.Rodrigues(np.array([x, y, z]) / np.sin(angle / 2) * angle)[0]
    assert np.degrees(np.linalg.norm(cv2.Rodrigues(turn @ truth[:3, :3].T)[0])) < 0.2
    assert robot_file.read_text().startswith("# kept\n")


def test_pictures_that_were_kept_are_solved_again(robot_file: Path) -> None:
    """After the test above; a dry run changes nothing."""
    before = robot_file.read_text()
    ended = calibrate(
        *("hand-eye", str(robot_file), "wrist", "--board", str(SMALL), "--dry-run"),
        *("--images", str(robot_file.parent / "pictures")),
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "xyz_m" in ended.stdout
    assert robot_file.read_text() == before


def test_a_board_of_another_size_is_refused_and_nothing_is_written(robot_file: Path) -> None:
    before = robot_file.read_text()
    ended = calibrate(
        *("hand-eye", str(robot_file), "wrist", "--board", "7x5:21:15.75"),
        *("--images", str(robot_file.parent / "pictures")),
    )
    assert ended.returncode == 2
    assert "times as large as described" in ended.stderr
    assert robot_file.read_text() == before


def test_by_hand_a_picture_is_taken_at_each_enter(robot_file: Path) -> None:
    """Three are too few, and that is said; the pictures are kept."""
    kept = robot_file.parent / "by_hand"
    ended = calibrate(
        *("camera", str(robot_file), "wrist", "--name", NAME, "--board", str(SMALL), "--save", str(kept)),
        said="\n\n\ndone\n",
    )
    assert ended.returncode == 2
    assert "3 of 3 pictures show enough of the board, expected at least 8" in ended.stderr
    assert len(list(kept.glob("*.png"))) == 3
    assert not (kept / "joints.yaml").exists()
