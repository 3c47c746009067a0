"""What knows how an episode stands: the scene itself, or, for a task in words, a judge that reads the words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.tasks import SYSTEM2, Task
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_sim.cell.layout.hardware import SORT_PARTS
from rosa_sim.cell.world import World
from rosa_sim.demo.episodes import Judge
from rosa_sim.training.data.words import read_rule


def judge_of(scene: str, task: Task) -> Judge | None:
    """None where the scene knows. Raises `ConfigError` when the words of System 2 hold no rule."""
    if scene != SORT_PARTS:
        return None
    said = task.components[SYSTEM2].prompt if SYSTEM2 in task.components else ""
    try:
        rule = read_rule(said)
    except ValueError as error:
        problem = ConfigProblem(f"components.{SYSTEM2}.prompt", "invalid", str(error))
        raise ConfigError(scene, [problem]) from error
    return RuleJudge(rule)


class RuleJudge:
    """Judges a state of the sorting cell by a rule, in a separate cell."""

    def __init__(self, rule: int) -> None:
        self._rule = rule
        self._world = World(scene=SORT_PARTS)

    def __call__(self, seed: int, qpos: NDArray[np.float64]) -> str:
        self._world.set_state(seed, qpos)
        return self._world.by_rule(self._rule)
