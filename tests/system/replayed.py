"""What a robot that replays one picture needs: its pictures, and a robot file with slow cameras and a slow arm.

Nothing is rendered and no physics is computed, so that several such robots run beside whatever else is tested.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml

PANDA = Path(__file__).parents[2] / "configs" / "robots" / "panda.yaml"
CAMERA_HZ = 10
CONTROL_HZ = 25  # four such robots take half of what they take at 100 Hz


def robot_file(folder: Path, **changes: Any) -> Path:
    """The Panda with other settings, in `folder`, and beside it the pictures of its cameras."""
    spec = yaml.safe_load(PANDA.read_text()) | {"control_rate_hz": CONTROL_HZ} | changes
    for name, camera in spec["cameras"].items():
        camera["rate_hz"] = CAMERA_HZ
        (folder / name).mkdir()
        cv2.imwrite(str(folder / name / "0.png"), np.full((96, 96, 3), 90, np.uint8))
    path = folder / "robot.yaml"
    path.write_text(yaml.safe_dump(spec))
    return path
