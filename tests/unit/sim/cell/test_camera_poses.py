"""The robot file places the simulated cameras where the simulator draws from."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from rosa_contract.config.robot import load_robot
from rosa_sim.cell.scene import load_model

ROBOTS = Path(__file__).parents[4] / "configs" / "robots"
FILES = {"pick_place": "panda.yaml", "sort_parts": "panda_sort_parts.yaml"}
# OpenGL looks along -z with y up, an optical frame along z with y down.
OPTICAL = np.diag([1.0, -1.0, -1.0])


@pytest.mark.parametrize("camera", ["front", "wrist"])
@pytest.mark.parametrize("scene", FILES)
def test_a_camera_is_where_the_robot_file_says(scene: str, camera: str) -> None:
    pose = load_robot(ROBOTS / FILES[scene]).cameras[camera].pose
    assert pose is not None
    model = load_model(scene)
    mounted = model.camera(camera)
    x, y, z, w = pose.quaternion
    said = np.zeros(9)
    mujoco.mju_quat2Mat(said, np.array([w, x, y, z]))
    drawn = np.zeros(9)
    mujoco.mju_quat2Mat(drawn, mounted.quat)
    assert mounted.pos == pytest.approx(pose.xyz_m, abs=1e-6)
    assert said.reshape(3, 3) == pytest.approx(drawn.reshape(3, 3) @ OPTICAL, abs=1e-5)
    body = model.body(int(mounted.bodyid[0])).name
    assert body == {"panda_link0": "world", "panda_hand": "panda_hand"}[pose.parent]
