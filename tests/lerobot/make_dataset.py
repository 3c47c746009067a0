"""Runs in LeRobot's environment: the toy world of `rosa try`'s tests as a dataset that LeRobot writes.

python make_dataset.py FOLDER pictures|videos
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from tests.unit.server.trying.toy import OPEN_M, STEP_S, frames

CAMERAS = ("front", "wrist")


def main(folder: Path, kind: str) -> None:
    names = ["j1.pos", "j2.pos", "gripper.pos"]
    features = {
        f"observation.images.{name}": {
            "dtype": "video" if kind == "videos" else "image",
            "shape": (64, 64, 3),
            "names": ["height", "width", "channels"],
        }
        for name in CAMERAS
    } | {
        name: {"dtype": "float32", "shape": (3,), "names": names} for name in ("observation.state", "action")
    }
    dataset = LeRobotDataset.create(
        "rosa/toy", round(1 / STEP_S), features, root=folder, robot_type="toy", use_videos=kind == "videos"
    )
    rows = list(frames())
    for task, chosen in (("rest", rows[:20]), ("go to red", rows)):
        for row in chosen:
            values = np.array([*np.degrees(row["row"][:2]), 100 * row["row"][2] / OPEN_M], np.float32)
            pictures = {
                f"observation.images.{name}": row[name].repeat(2, axis=0).repeat(2, axis=1)
                for name in CAMERAS
            }
            dataset.add_frame({**pictures, "observation.state": values, "action": values, "task": task})
        dataset.save_episode()
    if hasattr(dataset, "finalize"):
        dataset.finalize()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
