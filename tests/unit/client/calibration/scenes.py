"""Pictures of the board with the arm in planned poses: from the front camera, and from the one on the hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rosa_client.calibration.board import BoardSpec
from rosa_client.calibration.detection import View, find_board
from rosa_client.calibration.hand_eye import HandEyeSample
from rosa_client.calibration.poses import poses_around
from rosa_contract.config.robot import load_robot
from rosa_contract.kinematics.chain import Chain
from rosa_contract.wire.images import Rgb
from tests.unit.client.calibration.rendered import Mount, Stage

ROOT = Path(__file__).parents[4]
SPEC = load_robot(ROOT / "configs" / "robots" / "panda.yaml")
assert SPEC.chain is not None
CHAIN = Chain(SPEC.chain)
LARGE, SMALL = BoardSpec(), BoardSpec(7, 5, 0.02, 0.015)
# The hand points at the front camera, from 0.55 m and from 0.45 m.
FAR_RAD = (-1.21674, 0.57138, 1.29649, -2.50715, 2.7973, 1.37639, 0.27459)
NEAR_RAD = (-1.12314, 0.62352, 1.26614, -2.29078, 2.7973, 1.5193, 0.26973)


@dataclass(frozen=True)
class Scene:
    """What one camera saw."""

    board: BoardSpec
    joints_rad: np.ndarray  # (n, 7)
    pictures: list[Rgb]
    truth: np.ndarray  # (4, 4): where the camera is, in the hand's or the base's frame

    def samples(self) -> list[HandEyeSample]:
        found = [find_board(str(i), picture, self.board) for i, picture in enumerate(self.pictures)]
        return [
            HandEyeSample(CHAIN.hand(q), view)
            for q, view in zip(self.joints_rad, found, strict=True)
            if isinstance(view, View)
        ]


def fixed(folder: Path, board: BoardSpec, start: tuple[float, ...], count: int, shift_m: float) -> Scene:
    """The hand holds the board before its fingers."""
    held = np.diag([1.0, -1.0, -1.0, 1.0])
    held[:3, 3] = -board.size_m[0] / 2, board.size_m[1] / 2, 0.12
    return _scene(folder, "front", board, Mount("panda_hand", held), start, 0.0, count, shift_m)


def on_hand(folder: Path, board: BoardSpec, count: int) -> Scene:
    """The board lies on the table; the fingers hide the lower half of the picture."""
    lies = Mount("world", on_table(board))
    return _scene(folder, "wrist", board, lies, SPEC.home_rad, 0.38, count, 0.06)


def on_table(board: BoardSpec) -> np.ndarray:
    """Pose (4, 4) of the board in the base's frame."""
    lies = np.eye(4)
    lies[:3, :3] = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]
    lies[:3, 3] = 0.36, -board.size_m[0] / 2, 0.002
    return lies


def _scene(
    folder: Path,
    camera: str,
    board: BoardSpec,
    mount: Mount,
    start: tuple[float, ...],
    distance_m: float,
    count: int,
    shift_m: float,
) -> Scene:
    stage = Stage(folder, camera, board, mount)
    try:
        joints = poses_around(SPEC, start, distance_m, count, shift_m)
        truth = stage.mount("panda_hand" if camera == "wrist" else "panda_link0")
        return Scene(board, joints, [stage.take(q) for q in joints], truth)
    finally:
        stage.close()
