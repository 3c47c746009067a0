"""Fits the range of pictures that the task monitor answers for: fresh cells of the kind that it was trained on.

Brightness may fall to half of the darkest picture: at half the light the policy still solves most cells, at a
quarter none (`limits.py`). A "done" needs half as many vivid pixels as 99 % of the finished looks
that the network recognised.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from rosa_server.models.backend import ModelInput
from rosa_server.models.panda.picture_range import vivid_pixels
from rosa_server.models.panda.task_monitor import TaskMonitorBackend
from rosa_server.models.panda.vision import IMAGE_SIZE, WEIGHTS_DIR
from rosa_sim.cell.layout.hardware import cell
from rosa_sim.cell.layout.mjcf import look_at
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.training.data.collect import single_look
from rosa_sim.training.data.looks import LookRecorder
from rosa_sim.training.data.moves import RECIPES, into_bin, pose_arm
from rosa_sim.training.data.pictures import POLICY_CAMERAS
from rosa_sim.training.networks.small import MONITOR_FILE

RANGE_SEED = 300_000_000  # cells that nothing was trained or evaluated on
SATURATION, DARKEST_VIVID = 0.5, 0.4
MARGIN_PIXELS = 3  # the camera is not where it should be by a few centimetres


def bin_region() -> tuple[int, int, int, int]:
    """Rows and columns of the front picture in which a cube in the bin lies, wherever the bin may stand."""
    c = cell()
    camera, (size_x, size_y) = c.cameras["front"], c.bins["inner_half"]
    (x0, x1), (y0, y1) = c.bins["x"], c.bins["y"]
    corners = np.array(
        [
            [x, y, z]
            for x in (x0 - size_x, x1 + size_x)
            for y in (y0 - size_y, y1 + size_y)
            for z in (0.0, 2 * c.blocks["half_size"])
        ]
    )
    position = np.array(camera["position"])
    seen = (corners - position) @ look_at(position, np.array(camera["look_at"]))  # x right, y up, z backwards
    focal = IMAGE_SIZE / 2 / np.tan(np.deg2rad(camera["fovy_deg"]) / 2)
    columns = IMAGE_SIZE / 2 + focal * seen[:, 0] / -seen[:, 2]
    rows = IMAGE_SIZE / 2 - focal * seen[:, 1] / -seen[:, 2]

    def span(values: np.ndarray) -> tuple[int, int]:
        low, high = np.floor(values.min()) - MARGIN_PIXELS, np.ceil(values.max()) + MARGIN_PIXELS
        return int(np.clip(low, 0, IMAGE_SIZE)), int(np.clip(high, 0, IMAGE_SIZE))

    return *span(rows), *span(columns)


def fit_range(looks: int) -> Path:
    """Write the range beside the monitor's weights, from `looks` looks; every second one shows a finished task."""
    region = bin_region()
    monitor = TaskMonitorBackend(range_check=False)
    monitor.load()
    world, renderer = World(RANGE_SEED), SceneRenderer(POLICY_CAMERAS)
    rng = np.random.default_rng([8, RANGE_SEED])
    recorder = LookRecorder(world, renderer, rng)
    try:
        for number in tqdm(range(looks), desc="range", unit="look"):
            world.reset(RANGE_SEED + number)
            if number % 2 == 0:  # a block in the bin, the arm anywhere
                pose_arm(world, rng, (0, 0), RECIPES[world.scene].poses)
                into_bin(world, rng, 0, 0)
                world.set_state(world.seed, world.qpos)
                recorder.record()
            else:
                single_look(world, recorder, rng)
    finally:
        renderer.close()
    brightness = [float(row["front"].mean()) for row in recorder.rows]
    targets = [
        vivid_pixels(row["front"], region, SATURATION, DARKEST_VIVID)
        for row in recorder.rows
        if row["outcome"] == 1 and _recognised(monitor, row)
    ]
    report: dict[str, Any] = {
        "derived": f"python -m rosa_sim.training range --range-looks {looks}, {time.strftime('%Y-%m-%d')}",
        "seen": {
            "looks": looks,
            "mean brightness, least and most": [round(min(brightness), 1), round(max(brightness), 1)],
            "finished looks that the network calls done": len(targets),
            "vivid pixels of these: least, 1st percentile, median": [
                min(targets),
                *(float(value) for value in np.percentile(targets, [1, 50]).round(1)),
            ],
        },
        "rule": "brightness: half the least, and half way from the most to 255; "
        "vivid pixels: half the 1st percentile",
        "range": {
            "brightness": [round(min(brightness) / 2, 1), round((max(brightness) + 255) / 2, 1)],
            "region": region,
            "saturation": SATURATION,
            "darkest_vivid": DARKEST_VIVID,
            "target_pixels": max(1, int(np.percentile(targets, 1) / 2)),
        },
    }
    path = (WEIGHTS_DIR / MONITOR_FILE).with_suffix(".range.json")
    path.write_text(json.dumps(report, indent=1) + "\n")
    return path


def _recognised(monitor: TaskMonitorBackend, row: dict[str, Any]) -> bool:
    state = {"joint_position": row["joint_position"], "gripper_width": row["gripper_width"].reshape(1)}
    images = {name: row[name] for name in POLICY_CAMERAS}
    return monitor.infer([ModelInput("monitor", images=images, state=state)])[0].verdict == "done"
