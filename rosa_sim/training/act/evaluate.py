"""The policy in LeRobot's own loop: its processors and its `select_action`, in this process, in the simulated cell."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from numpy.typing import NDArray

from rosa_sim.training.act.act_cell import PICTURES, STATE, TASK, ActCell

MAX_ROUNDS = 60  # 30 s; a clean pick takes about 10 rounds
ROUNDS_AFTER_END = 1


@dataclass(frozen=True)
class ActTrial:
    """How one seed ended: done, failed, or ongoing."""

    seed: int
    outcome: str
    rounds: int


class LerobotLoop:
    """A checkpoint as LeRobot runs it."""

    def __init__(self, folder: Path) -> None:
        config = PreTrainedConfig.from_pretrained(folder)
        config.device = "cpu"
        self.policy = get_policy_class(config.type).from_pretrained(folder, config=config).eval()
        self._before, self._after = make_pre_post_processors(config, pretrained_path=str(folder))
        self._rows = config.n_action_steps

    def begin(self) -> None:
        """An episode begins."""
        self.policy.reset()

    def act(self, seen: dict[str, Any]) -> NDArray[Any]:
        """The actions until it looks again, `(rows, 4)`, one after another."""
        rows = []
        with torch.no_grad():
            for _ in range(self._rows):
                told: dict[str, Any] = {
                    name: torch.from_numpy(seen[name]).permute(2, 0, 1).float() / 255
                    for name in PICTURES.values()
                }
                told |= {STATE: torch.from_numpy(seen[STATE]), "task": TASK}
                rows.append(self._after(self.policy.select_action(self._before(told)))[0])
        return torch.stack(rows).numpy()


def play(loop: LerobotLoop, cell: ActCell, seed: int) -> ActTrial:
    """One episode. While the policy thinks, the arm rests where it was told to be, as the robot's does."""
    cell.reset(seed)
    loop.begin()
    left, rounds = ROUNDS_AFTER_END, 0
    while rounds < MAX_ROUNDS:
        if cell.world.outcome() != "ongoing":
            left -= 1
            if left < 0:
                break
        cell.play(loop.act(cell.look()))
        cell.arm.wait()
        rounds += 1
    return ActTrial(seed, cell.world.outcome(), rounds)


def evaluate(folder: Path, seeds: list[int], out: Path | None) -> list[ActTrial]:
    """Play every seed, print it, and write `out`."""
    loop, cell, trials = LerobotLoop(folder), ActCell(), list[ActTrial]()
    try:
        for seed in seeds:
            began_s = time.monotonic()
            trials.append(play(loop, cell, seed))
            done = sum(one.outcome == "done" for one in trials)
            took_s = time.monotonic() - began_s
            print(f"{trials[-1]}, {took_s:.1f} s; {done} of {len(trials)} done", flush=True)
            if out is not None:
                out.write_text(json.dumps([asdict(one) for one in trials]))
    finally:
        cell.close()
    return trials
