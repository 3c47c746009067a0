"""`RosaEnv`: a gymnasium environment, single or vectorised, whose actions come from a ROSA server.

Works with whatever has gymnasium's `reset`, `step` and `close`, and imports nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np

from rosa_client.robot.group import GroupQueue, RobotGroup
from rosa_client.robot.observation import Observation

SAME_STEP = (
    "SAME_STEP"  # gymnasium's name: a vector environment is reset in the step in which an episode ends
)


class RosaEnv:
    """Wraps an environment so that `env.step()` needs no action: it takes actions from the server, chunk by chunk.

    Each environment of a vector is a separate robot, and their calls can share batches. All other attributes are those
    of the wrapped environment.
    """

    def __init__(
        self,
        env: Any,
        server: str,
        task: str,
        *,
        observe: Callable[[Any], Observation] | None = None,
        act: Callable[[Any], Any] | None = None,
        prompt: str = "",
        steps: int = 0,
        **how: Any,
    ) -> None:
        """`observe`: converts an observation of one environment to the input of `Robot.infer`; default: unchanged.
        `act`: converts a row of the model's actions to an action of one environment; default: unchanged. `steps`:
        number of actions to use from each chunk; 0: as many as the server chose, or all of them. `how`: keyword
        arguments for `RobotGroup`.
        """
        self.env = env
        self._vector = hasattr(env, "num_envs")
        self._observe, self._act, self._prompt = (
            observe or (lambda seen: seen),
            act or (lambda row: row),
            prompt,
        )
        self._group = RobotGroup(server, task, env.num_envs if self._vector else 1, **how)
        self._queue = GroupQueue(self._group, steps)
        self._seen: Any = None
        mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode", "")
        # Else the step after an episode's last one only resets, so that what was asked for then is of the old one.
        self._resets_at_once = SAME_STEP in str(getattr(mode, "name", mode))
        self._ended = np.zeros(self._group.count, bool)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and discard the remaining actions."""
        self._queue.clear()
        self._ended[:] = False
        self._seen, info = self.env.reset(**options)
        return self._seen, info

    def step(self, action: Any = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environment. Without `action`, use the server's; raises `RobotError` as `Robot.infer` does."""
        if action is None:
            action = self.actions()
        self._seen, reward, terminated, truncated, info = self.env.step(action)
        over = np.atleast_1d(np.logical_or(terminated, truncated))
        for number in np.flatnonzero(over | (self._ended & (not self._resets_at_once))):
            self._queue.clear(int(number))
        self._ended = over
        return self._seen, reward, terminated, truncated, info

    def actions(self) -> Any:
        """The server's next action for the environment's current observation. Raises `RobotError`."""
        if self._seen is None:
            raise RuntimeError("reset the environment first")
        seen = [self._observe(self._of(number)) for number in range(self._group.count)]
        rows = [self._act(row) for row in self._queue.next(seen, prompts=self._prompt)]
        return np.stack(rows) if self._vector else rows[0]

    def close(self) -> None:
        """Disconnect the robots and close the environment."""
        self._group.close()
        self.env.close()

    def _of(self, number: int) -> Any:
        return _one_of(self._seen, number) if self._vector else self._seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _one_of(seen: Any, number: int) -> Any:
    """Of what a vector shows, what one of its environments does."""
    if isinstance(seen, Mapping):
        return {name: _one_of(values, number) for name, values in seen.items()}
    return seen[number]
