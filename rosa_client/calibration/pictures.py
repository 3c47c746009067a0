"""A folder of pictures of the board: `<number>.png`, and `joints.yaml` with the arm's joint positions of each."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import yaml

from rosa_client.calibration.board import Array
from rosa_client.calibration.errors import CalibrationError
from rosa_client.calibration.names import REPORT
from rosa_contract.wire.images import Rgb

JOINTS = "joints.yaml"
KINDS = (".png", ".jpg", ".jpeg")


def read_pictures(folder: Path) -> dict[str, Rgb]:
    """Name -> (height, width, 3). Raises `CalibrationError` for a folder without pictures, or one that is damaged."""
    paths = sorted(path for path in folder.glob("*") if path.suffix.lower() in KINDS and path.name != REPORT)
    if not paths:
        words = f"{folder}: expected pictures ({', '.join(KINDS)}), found none"
        raise CalibrationError("bad_picture", words)
    pictures = {}
    for path in paths:
        bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if bgr is None:
            raise CalibrationError("bad_picture", f"{path} is not a picture that OpenCV can read")
        pictures[path.name] = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)
    return pictures


def read_joints(folder: Path, dof: int) -> dict[str, Array]:
    """Name of the picture -> joint positions (dof,), rad. Raises `CalibrationError`."""
    path = folder / JOINTS
    try:
        document = yaml.safe_load(path.read_text())
        joints = {str(name): np.array(values, np.float64) for name, values in document.items()}
    except (OSError, yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        words = f"{path}: expected `picture.png: [{dof} joint positions in rad]` for each picture ({error})"
        raise CalibrationError("bad_picture", words) from None
    for name, values in joints.items():
        if values.shape != (dof,) or not np.isfinite(values).all():
            words = f"{path}: {name}: expected {dof} joint positions in rad, got {values.tolist()}"
            raise CalibrationError("bad_picture", words)
    return joints


class PictureFolder:
    """Keeps what is taken, so that a calibration that fails can be solved again."""

    def __init__(self, folder: Path) -> None:
        """Raises `CalibrationError` for a folder that holds something already."""
        if folder.exists() and any(folder.iterdir()):
            words = f"{folder} is not empty; name another one with --save, or solve it with --images"
            raise CalibrationError("bad_picture", words)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._joints: dict[str, list[float]] = {}

    def add(self, rgb: Rgb, joints_rad: Array | None) -> str:
        """Keep a picture (height, width, 3); returns its name."""
        name = f"{len(list(self.folder.glob('*.png'))):03d}.png"
        cv2.imwrite(str(self.folder / name), cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))
        if joints_rad is not None:
            self._joints[name] = [round(float(value), 6) for value in joints_rad]
            (self.folder / JOINTS).write_text(yaml.safe_dump(self._joints, default_flow_style=None))
        return name
