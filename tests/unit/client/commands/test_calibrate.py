"""`rosa calibrate` without a robot: the board, kept pictures, what is refused, and what is written."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from rosa_client.calibration.errors import CalibrationError
from rosa_client.calibration.pictures import PictureFolder
from rosa_client.commands import calibrate
from rosa_contract.config.robot import load_robot
from rosa_server.cli import main
from tests.unit.client.calibration import scenes
from tests.unit.client.calibration.rendered import LENS
from tests.unit.client.calibration.scenes import ROOT, Scene
from tests.unit.client.commands.test_operator import rosa_without_ros

PANDA = ROOT / "configs" / "robots" / "panda.yaml"


@pytest.fixture(scope="module")
def lens_scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return scenes.fixed(tmp_path_factory.mktemp("lens"), scenes.LARGE, scenes.FAR_RAD, 30, 0.13)


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    path = tmp_path / "robot.yaml"
    path.write_text(PANDA.read_text())
    return path


def kept(folder: Path, scene: Scene, joints: bool) -> Path:
    pictures = PictureFolder(folder)
    for rgb, q in zip(scene.pictures, scene.joints_rad, strict=True):
        pictures.add(rgb, q if joints else None)
    return folder


@pytest.mark.slow
def test_without_ros_it_is_offered_and_says_what_it_needs(tmp_path: Path) -> None:
    assert "    calibrate\n" in rosa_without_ros("--help").stdout
    asked = rosa_without_ros("calibrate", "camera", str(PANDA), "front", "--save", str(tmp_path / "new"))
    assert asked.returncode == 2
    assert "needs ROS 2" in asked.stderr and "make setup" in asked.stderr and "--images" in asked.stderr


class Cell:
    """A robot that is asked to calibrate, and the person who says yes; meanwhile the robot is not left alone."""

    def __init__(self, task: str, at_rad: list[float]) -> None:
        """`task`: what it is given, `at_rad`: where it stands, when the person answers."""
        self.moved: list[list[float]] = []
        self._later = task, at_rad
        self._task, self._at_rad = "", list(load_robot(PANDA).home_rad)

    def may_move(self) -> None:
        if self._task:
            raise CalibrationError("no_robot", f"the robot runs its task {self._task!r}; cancel it first")

    def joints(self) -> np.ndarray:
        return np.array(self._at_rad)

    def move_to(self, q_rad: np.ndarray) -> None:
        self.moved.append([float(q) for q in q_rad])

    def take(self, with_arm: bool) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((96, 96, 3), np.uint8), self.joints()

    def readline(self) -> str:
        self._task, self._at_rad = self._later
        return "yes\n"


def by_itself(cell: Cell, robot: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    document = yaml.safe_load(robot.read_text())
    document["cameras"]["front"]["intrinsics"] = {"fx": 100.0, "fy": 100.0, "cx": 48.0, "cy": 48.0}
    robot.write_text(yaml.safe_dump(document))
    monkeypatch.setattr(calibrate, "_client", lambda *_: nullcontext(cell))
    monkeypatch.setattr("sys.stdin", cell)
    words = ("--auto", "--poses", "8", "--save", str(robot.parent / "new"))
    return main(["calibrate", "hand-eye", str(robot), "front", *words])


def test_a_robot_that_was_given_a_task_before_the_yes_is_not_moved(
    robot: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = Cell("pick_and_place", list(load_robot(PANDA).home_rad))
    assert by_itself(cell, robot, monkeypatch) != 0
    assert "the robot runs its task 'pick_and_place'" in capsys.readouterr().err
    assert cell.moved == []


def test_an_arm_that_was_moved_before_the_yes_moves_around_where_it_stands_now(
    robot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [float(q) for q in np.add(load_robot(PANDA).home_rad, 0.1)]
    cell = Cell("", there)
    by_itself(cell, robot, monkeypatch)
    assert cell.moved[-1] == there, "it goes back to where it was found"


@pytest.mark.parametrize("count", ["0", "-1", "7", "many"])
def test_fewer_poses_than_a_place_needs_are_wrong_input_and_nothing_moves(
    robot: Path, count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["calibrate", "hand-eye", str(robot), "front", "--auto", "--yes", "--poses", count])
    assert f"expected 8 poses or more, got {count}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["board.pdf", "board.png"])
def test_the_board_is_written(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    assert main(["calibrate", "board", str(path)]) == 0
    assert "245 x 175 mm" in capsys.readouterr().out
    if name.endswith("png"):
        assert cv2.imread(str(path)).shape == (2100, 2940, 3)
    else:
        assert path.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    "words",
    [["board", "NOWHERE"], ["camera", "ROBOT", "front", "--save", "NOWHERE"]],
)
def test_a_file_that_cannot_be_written_is_told_in_a_line(
    tmp_path: Path, robot: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    names = {"ROBOT": str(robot), "NOWHERE": str(tmp_path / "file" / "board.pdf")}
    assert main(["calibrate", *(names.get(word, word) for word in words)]) == 2
    assert f"{names['NOWHERE']}: Not a directory" in capsys.readouterr().err


@pytest.mark.slow
def test_a_lens_is_written_also_where_its_report_cannot_be(
    tmp_path: Path, robot: Path, lens_scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody has held the board for a quarter of an hour."""
    folder, report = (
        kept(tmp_path / "pictures", lens_scene, joints=False),
        str(tmp_path / "nowhere" / "r.png"),
    )
    given = ["front", "--images", str(folder), "--report", report]
    assert main(["calibrate", "camera", str(robot), *given]) == 0
    assert load_robot(robot).cameras["front"].intrinsics is not None
    assert f"no report: {report}: No such file or directory" in capsys.readouterr().out


@pytest.mark.slow
def test_a_lens_from_full_pictures_is_written_for_the_size_of_the_robot_file(
    tmp_path: Path, robot: Path, lens_scene: Scene
) -> None:
    """The pictures have 640x480 px, the robot's camera 96x96: cut to 480x480 and scaled by five."""
    folder = kept(tmp_path / "pictures", lens_scene, joints=False)
    for _ in range(2):  # the report lies beside the pictures and is none
        assert main(["calibrate", "camera", str(robot), "front", "--images", str(folder)]) == 0
    lens = load_robot(robot).cameras["front"].intrinsics
    assert lens is not None
    assert lens.fx == pytest.approx(LENS.fx / 5, rel=0.01)
    assert lens.cx == pytest.approx((LENS.cx - 80 + 0.5) / 5 - 0.5, abs=0.5)
    assert (folder / "report.png").is_file()


def test_a_place_needs_a_lens_first(robot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "hand-eye", str(robot), "wrist", "--images", str(robot.parent)]) == 2
    assert "rosa calibrate camera first" in capsys.readouterr().err


@pytest.mark.slow
def test_the_place_of_a_fixed_camera_from_kept_pictures(
    tmp_path: Path, robot: Path, lens_scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = kept(tmp_path / "pictures", lens_scene, joints=True)
    given = ["front", "--images", str(folder)]
    assert main(["calibrate", "camera", str(robot), *given]) == 0
    assert main(["calibrate", "hand-eye", str(robot), *given]) == 0
    said = capsys.readouterr().out
    assert "front in panda_link0" in said
    pose = load_robot(robot).cameras["front"].pose
    assert pose is not None
    assert 1000 * np.linalg.norm(np.array(pose.xyz_m) - lens_scene.truth[:3, 3]) < 1.5


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["camera", "ROBOT", "side"], "has no camera 'side'; it has front, wrist"),
        (["camera", "ROBOT", "front", "--board", "7x6:35:26"], "odd number of rows"),
        (["camera", "ROBOT", "front", "--images", "EMPTY"], "expected pictures"),
        (["hand-eye", "ROBOT", "wrist", "--images", "EMPTY", "--parent", "moon"], "expected a link like"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, robot: Path, words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    document = yaml.safe_load(robot.read_text())
    document["cameras"]["wrist"]["intrinsics"] = {"fx": 100.0, "fy": 100.0, "cx": 48.0, "cy": 48.0}
    robot.write_text(yaml.safe_dump(document))
    names = {"ROBOT": str(robot), "EMPTY": str(tmp_path / "empty")}
    assert main(["calibrate", *(names.get(word, word) for word in words)]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "expected `picture.png: [7 joint positions in rad]`"),
        ("000.png: [1, 2, 3]\n", "expected 7 joint positions"),
        ("000.png: [.nan, 0, 0, 0, 0, 0, 0]\n", "expected 7 joint positions"),
        ("just words\n", "expected `picture.png"),
    ],
)
def test_joint_positions_that_cannot_be(
    tmp_path: Path,
    robot: Path,
    lens_scene: Scene,
    text: str | None,
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = kept(tmp_path / "pictures", lens_scene, joints=False)
    if text is not None:
        (folder / "joints.yaml").write_text(text)
    given = ["front", "--images", str(folder)]
    assert main(["calibrate", "camera", str(robot), *given]) == 0
    assert main(["calibrate", "hand-eye", str(robot), *given]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.slow
def test_pictures_that_were_kept_are_not_mixed_with_new_ones(tmp_path: Path, lens_scene: Scene) -> None:
    from rosa_client.calibration.errors import CalibrationError

    folder = kept(tmp_path / "pictures", lens_scene, joints=False)
    with pytest.raises(CalibrationError):
        PictureFolder(folder)
