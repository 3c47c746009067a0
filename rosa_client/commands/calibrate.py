"""`rosa calibrate`: print a board, measure a camera's lens and its place; the result goes into the robot file.

rosa calibrate board board.pdf
rosa calibrate camera my_panda.yaml front
rosa calibrate hand-eye my_panda.yaml wrist --auto
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rosa_client.calibration.names import BOARD, MIN_VIEWS, REPORT
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.say import say
from rosa_contract.wording import NEEDS_ROS

if TYPE_CHECKING:
    from rosa_client.calibration.board import BoardSpec
    from rosa_client.nodes.console.calibration_client import CalibrationClient

ENOUGH = 25  # pictures after which a person may stop
DISTANCE_M = 0.35


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """`rosa calibrate` and its commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "calibrate", help="calibrate a camera's lens and pose with a printed ChArUco board (docs/franka.md)"
    )
    inner = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    board = inner.add_parser("board", help="write a calibration board to print at true scale")
    board.add_argument("file", help="output file: .pdf for a printer, .png for a screen")
    board.add_argument(
        "--board", default=BOARD, help="COLUMNSxROWS:SQUARE:MARKER, sizes in mm; default: %(default)s"
    )
    board.add_argument("--paper", default="a4", choices=("a4", "a3", "letter"), help="paper size of the PDF")
    board.set_defaults(act=_board)
    camera = inner.add_parser(
        "camera",
        help="measure a camera's focal length, optical centre and distortion",
        description="Calibrate a camera's lens. Hold the board in front of the camera: near and far, in every corner"
        " of the picture, tilted in all directions. Press Enter to take a picture; type `done` to solve.",
    )
    _common(camera)
    camera.set_defaults(act=_camera)
    hand = inner.add_parser(
        "hand-eye",
        help="measure a camera's pose, fixed beside the arm or on the hand",
        description="Measure a camera's pose. A camera on the hand looks at a board that lies still; for a fixed"
        " camera, the hand holds the board. Guide the arm to a pose and press Enter, or let the arm move"
        " itself with --auto.",
    )
    _common(hand)
    hand.add_argument(
        "--parent", default="", help="link that the camera is mounted on; default: from the robot file"
    )
    hand.add_argument(
        "--auto", action="store_true", help="let the arm move through safe poses around its current one"
    )
    hand.add_argument(
        "--yes", action="store_true", help="with --auto: do not ask for confirmation before the arm moves"
    )
    hand.add_argument(
        "--poses", type=_poses, default=16, help="with --auto: number of poses; default: %(default)s"
    )
    hand.add_argument(
        "--distance",
        type=float,
        default=DISTANCE_M,
        metavar="M",
        help="with --auto and a camera on the hand: distance from hand to board, m; default: %(default)s",
    )
    hand.set_defaults(act=_hand_eye)
    return parser


def main(arguments: argparse.Namespace) -> int:
    """0 when the result is written; raises `CalibrationError` or `ConfigError` when there is none."""
    try:
        return int(arguments.act(arguments))
    except OSError as error:
        from rosa_client.calibration.errors import CalibrationError

        raise CalibrationError("not_written", _told(error)) from None


def _poses(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= MIN_VIEWS):
        raise argparse.ArgumentTypeError(f"expected {MIN_VIEWS} poses or more, got {text}")
    return int(text)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("robot", help="robot file (YAML); the result is written into it")
    parser.add_argument("camera", help="camera name in the robot file")
    parser.add_argument(
        "--board", default=BOARD, help="board dimensions, as measured on the print; default: %(default)s"
    )
    parser.add_argument(
        "--images",
        default="",
        metavar="FOLDER",
        help="use pictures from this folder instead of taking new ones",
    )
    parser.add_argument(
        "--save", default="", metavar="FOLDER", help="save the pictures here; default: a new folder"
    )
    parser.add_argument("--name", default="panda0", help="robot namespace; default: panda0")
    parser.add_argument(
        "--report", default="", metavar="FILE", help="report image; default: report.png beside the pictures"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the result without writing it")


# -- the commands -----------------------------------------------------------------------------------------------------


def _board(arguments: argparse.Namespace) -> int:
    import cv2

    from rosa_client.calibration.board import BoardSpec, board_pdf

    board, path = BoardSpec.parse(arguments.board), Path(arguments.file)
    if path.suffix == ".png":
        path.write_bytes(cv2.imencode(".png", board.picture())[1].tobytes())
    else:
        path.write_bytes(board_pdf(board, arguments.paper))
    width, height = (1000 * side for side in board.size_m)
    say(
        f"{path}: board {board}, {width:g} x {height:g} mm. Print it at 100 %, glue it onto something flat and stiff,"
    )
    say("measure a square, and give --board with that size if it is not what is written there.")
    return 0


def _camera(arguments: argparse.Namespace) -> int:
    from rosa_client.calibration.board import BoardSpec
    from rosa_client.calibration.detection import find_board
    from rosa_client.calibration.lens import fitted, solve_lens
    from rosa_client.calibration.pictures import read_pictures
    from rosa_client.calibration.robot_file import intrinsics_mapping
    from rosa_client.calibration.words import lens_lines

    spec, board = _robot(arguments), BoardSpec.parse(arguments.board)
    folder = Path(arguments.images) if arguments.images else _by_hand(arguments, spec, board, with_arm=False)
    found = [find_board(name, rgb, board) for name, rgb in read_pictures(folder).items()]
    result = solve_lens(found, board)
    camera = spec.cameras[arguments.camera]
    lens = fitted(result.intrinsics, result.size, (camera.width, camera.height))
    lines = lens_lines(arguments.camera, result)
    _report(arguments, folder, list(result.used), list(result.residuals_px), lines)
    return _write(arguments, "intrinsics", intrinsics_mapping(lens))


def _hand_eye(arguments: argparse.Namespace) -> int:
    from rosa_client.calibration.board import BoardSpec
    from rosa_client.calibration.detection import Missed, View, find_board, views_of
    from rosa_client.calibration.errors import CalibrationError
    from rosa_client.calibration.hand_eye import HandEyeSample, solve_hand_eye
    from rosa_client.calibration.lens import unfitted
    from rosa_client.calibration.mounting import mounting_of
    from rosa_client.calibration.pictures import read_joints, read_pictures
    from rosa_client.calibration.robot_file import pose_mapping, pose_of
    from rosa_client.calibration.words import place_lines

    spec, board = _robot(arguments), BoardSpec.parse(arguments.board)
    camera = spec.cameras[arguments.camera]
    if camera.intrinsics is None:
        words = f"camera {arguments.camera!r} has no `intrinsics` yet: rosa calibrate camera first"
        raise CalibrationError("not_written", words)
    mounting = mounting_of(spec, arguments.camera, arguments.parent)
    if arguments.images:
        folder = Path(arguments.images)
    elif arguments.auto:
        folder = _by_itself(arguments, spec, board, mounting.on_hand)
    else:
        folder = _by_hand(arguments, spec, board, with_arm=True)
    pictures, joints = read_pictures(folder), read_joints(folder, len(spec.joints))
    found: list[View | Missed] = [
        find_board(name, rgb, board)
        if name in joints
        else Missed(name, "bad_picture", "its joint positions are not in joints.yaml")
        for name, rgb in pictures.items()
    ]
    views = views_of(found, MIN_VIEWS)
    lens = unfitted(camera.intrinsics, views[0].size, (camera.width, camera.height))
    samples = [HandEyeSample(mounting.base_parent(joints[view.name]), view) for view in views]
    result = solve_hand_eye(samples, lens, board, mounting.on_hand)
    missed = [one for one in found if isinstance(one, Missed)]
    lines = place_lines(arguments.camera, mounting.parent, result, missed)
    used = [sample.view for sample in result.used]
    _report(arguments, folder, used, list(result.residuals_px), lines)
    return _write(arguments, "pose", pose_mapping(pose_of(mounting.parent, result.mount)))


# -- taking pictures --------------------------------------------------------------------------------------------------


def _by_hand(arguments: argparse.Namespace, spec: RobotSpec, board: BoardSpec, with_arm: bool) -> Path:
    """A person holds the board or guides the arm, and presses Enter for each picture."""
    from rosa_client.calibration.coverage import missing
    from rosa_client.calibration.detection import View, find_board
    from rosa_client.calibration.errors import CalibrationError
    from rosa_client.calibration.pictures import PictureFolder

    kept = PictureFolder(_new_folder(arguments))
    views: list[View] = []
    say(f"Enter takes a picture, `done` solves, Ctrl-C ends without a result. Pictures: {kept.folder}")
    with _client(arguments, spec) as client:
        while True:
            say(f"[{len(views)} of {ENOUGH}] ", end="")
            line = sys.stdin.readline()
            if not line or line.strip() == "done":
                return kept.folder
            try:
                rgb, joints = client.take(with_arm)
            except CalibrationError as error:
                say(f"  not taken: {error}")
                continue
            found = find_board("", rgb, board)
            if not isinstance(found, View):
                say(f"  not kept: {found.reason}")
                continue
            kept.add(rgb, joints)
            views.append(found)
            where = missing(views)
            todo = f"; still little: {where}" if where and not with_arm else ""
            say(f"  {len(found.ids)} of {board.corners} corners{todo}")


def _by_itself(arguments: argparse.Namespace, spec: RobotSpec, board: BoardSpec, on_hand: bool) -> Path:
    """The arm moves through safe poses around where it stands."""
    from rosa_client.calibration.detection import View, find_board
    from rosa_client.calibration.errors import CalibrationError
    from rosa_client.calibration.pictures import PictureFolder
    from rosa_client.calibration.poses import poses_around

    kept = PictureFolder(_new_folder(arguments))
    distance_m = arguments.distance if on_hand else 0.0
    with _client(arguments, spec) as client:
        client.may_move()
        start = client.joints()
        poses = poses_around(spec, list(start), distance_m, arguments.poses)
        say(
            f"the arm will move through {len(poses)} poses around where it stands, within the limits and the workspace "
            f"of {arguments.robot}, at {100 * spec.velocity_scale:g} % speed.\nIt does not know what stands around it. "
            "Keep the emergency stop at hand."
        )
        if not arguments.yes:
            say("Type yes to move: ", end="")
            if sys.stdin.readline().strip() != "yes":
                raise CalibrationError("no_robot", "not moved")
            client.may_move()  # a person takes their time: the robot may have a task by now, or stand elsewhere
            start = client.joints()
            poses = poses_around(spec, list(start), distance_m, arguments.poses)
        for number, q in enumerate([*poses, start], start=1):
            client.move_to(q)
            if number > len(poses):
                break
            rgb, joints = client.take(with_arm=True)
            found = find_board("", rgb, board)
            kept.add(rgb, joints)
            seen = f"{len(found.ids)} of {board.corners} corners" if isinstance(found, View) else found.reason
            say(f"[{number} of {len(poses)}] {seen}")
    say("the robot's nodes must be started again before its next task: the arm now obeys this command")
    return kept.folder


@contextmanager
def _client(arguments: argparse.Namespace, spec: RobotSpec) -> Iterator[CalibrationClient]:
    from rosa_client.calibration.errors import CalibrationError

    try:
        from rosa_client.nodes.console.calibration_client import connected
    except ImportError as error:
        words = f"{NEEDS_ROS}, or give --images ({error})"
        raise CalibrationError("no_robot", words) from None
    with connected(arguments.name, arguments.camera, spec) as client:
        yield client


def _new_folder(arguments: argparse.Namespace) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return Path(arguments.save or f"calibration-{arguments.what}-{arguments.camera}-{stamp}")


# -- results ----------------------------------------------------------------------------------------------------------


def _robot(arguments: argparse.Namespace) -> RobotSpec:
    from rosa_client.calibration.errors import CalibrationError

    spec = load_robot(arguments.robot)
    if arguments.camera not in spec.cameras:
        known = ", ".join(spec.cameras)
        raise CalibrationError(
            "not_written", f"{arguments.robot} has no camera {arguments.camera!r}; it has {known}"
        )
    return spec


def _report(
    arguments: argparse.Namespace, folder: Path, views: list[Any], residuals: list[Any], lines: list[str]
) -> None:
    import cv2

    from rosa_client.calibration.report import draw_report

    path = Path(arguments.report) if arguments.report else folder / REPORT
    for line in lines:
        say(line)
    picture = cv2.cvtColor(draw_report(views, residuals, lines[:2]), cv2.COLOR_RGB2BGR)
    try:
        path.write_bytes(cv2.imencode(".png", picture)[1].tobytes())
        say(f"report: {path}")
    except OSError as error:  # the result is worth more than its picture
        say(f"no report: {_told(error)}")


def _told(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _write(arguments: argparse.Namespace, key: str, value: dict[str, Any]) -> int:
    from rosa_client.calibration.robot_file import write_value

    if arguments.dry_run:
        say(f"{key}: {value}")
    else:
        write_value(Path(arguments.robot), arguments.camera, key, value)
        say(
            f"{arguments.robot}: cameras.{arguments.camera}.{key} is written; start the robot's nodes again to use it"
        )
    return 0
