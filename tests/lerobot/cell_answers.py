"""Runs in LeRobot's environment: what LeRobot's loop plays in the simulated cell, and how wide eyes see.

    python cell_answers.py WORK

Writes WORK/answers.npz: observations as a robot sends them, the rows that LeRobot's loop answers, and by how much the
checkpoint's ResNet18 differs from the narrow one that was trained.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from rosa_sim.training.act.act_cell import PICTURES, ActCell
from rosa_sim.training.act.backbone import NarrowResNet, padded, widened
from rosa_sim.training.act.evaluate import LerobotLoop

SEEDS = range(3)


def main(work: Path) -> None:
    loop, cell = LerobotLoop(work / "policy"), ActCell()
    told = []
    try:
        for seed in SEEDS:
            cell.reset(seed)
            loop.begin()
            seen = cell.look()
            world = cell.world
            told.append(
                {
                    **{name: seen[key] for name, key in PICTURES.items()},
                    "joint_position": world.joint_position.astype(np.float32),
                    "gripper_width": np.array([world.gripper_width], np.float32),
                    "rows": loop.act(seen),
                }
            )
    finally:
        cell.close()
    np.savez(
        work / "answers.npz",
        eyes_off=widening_changes(loop),
        **{name: np.stack([one[name] for one in told]) for name in told[0]},
    )


def widening_changes(loop: LerobotLoop) -> float:
    """The largest difference between a narrow ResNet18 and the wide one that it becomes."""
    torch.manual_seed(0)
    narrow = NarrowResNet()
    pictures = torch.randn(8, 3, 96, 96)
    narrow(pictures)  # so that its statistics are not those that it began with
    narrow.eval()
    wide = loop.policy.model.backbone
    before = wide.state_dict()
    wide.load_state_dict(widened(narrow.state_dict(), before))
    with torch.no_grad():
        narrow_maps, wide_maps = padded(narrow(pictures)), wide(pictures)["feature_map"]
    assert float(narrow_maps.std()) > 0.01
    return float((narrow_maps - wide_maps).abs().max() / narrow_maps.abs().max())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
