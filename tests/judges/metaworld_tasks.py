"""Tasks of Meta-World for vla-eval, without pictures: episode n of a task is the same in every process."""

from __future__ import annotations

from typing import Any, ClassVar

import metaworld
import numpy as np
from vla_eval.benchmarks.base import StepBenchmark, StepResult

TASKS = ("reach-v3", "button-press-v3")


class MetaWorld(StepBenchmark):
    render_backends: ClassVar[frozenset[str]] = frozenset({"cpu"})

    @classmethod
    def configure_render(cls, mode: str) -> dict[str, str]:
        return {}

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[str, tuple[Any, Any]] = {}  # task -> (environment, its episodes)
        self._env: Any = None

    def get_tasks(self) -> list[Any]:
        return [{"name": name, "suite": "metaworld"} for name in TASKS]

    def reset(self, task: Any) -> Any:
        name = task["name"]
        if name not in self._made:
            all_of = metaworld.MT1(name, seed=1)
            self._made[name] = all_of.train_classes[name](), all_of.train_tasks
        self._env, episodes = self._made[name]
        self._env.set_task(episodes[task["episode_idx"]])
        return self._env.reset()[0]

    def step(self, action: Any) -> StepResult:
        seen, reward, _, over, info = self._env.step(np.asarray(action["actions"], np.float64))
        success = bool(info["success"])
        return StepResult(seen, float(reward), success or over, {"success": success})

    def make_obs(self, raw_obs: Any, task: Any) -> Any:
        return {"state": np.asarray(raw_obs, np.float32), "task_description": task["name"]}

    def get_step_result(self, step_result: StepResult) -> Any:
        return {"success": bool(step_result.info.get("success"))}

    def get_action_spec(self) -> dict[str, Any]:
        return {}

    def get_observation_spec(self) -> dict[str, Any]:
        return {}
