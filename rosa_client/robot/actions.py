"""`ActionQueue`: one action at a time from the chunks of a robot."""

from __future__ import annotations

from typing import Any

from rosa_client.robot.answer import Answer
from rosa_client.robot.blocking import Robot
from rosa_client.robot.observation import Observation
from rosa_contract.wire.messages import Array


class ActionQueue:
    """Hands out the actions of a chunk one by one, and asks for the next chunk when they are used up.

    The caller keeps the pace: one action per step of the chunk. For an arm, `rosa_client.motion.chunk_player` plays
    chunks by time instead, within the arm's limits.
    """

    def __init__(self, robot: Robot, steps: int = 0) -> None:
        """`steps`: how many actions of each chunk are used; 0: as many as the server chose, or all."""
        if steps < 0:
            raise ValueError(f"steps: expected 0 or more, got {steps}")
        self._robot, self._steps = robot, steps
        self._next = self._end = 0
        self.chunk: Answer | None = None  # the newest

    def next(self, observation: Observation, **how: Any) -> Array:
        """The next action, (values,) float32. `how`: as for `Robot.infer`, whose errors it raises. After an error
        nothing of an older chunk is handed out."""
        if self._next >= self._end:
            self._next = self._end = 0
            self.chunk = self._robot.infer(observation, **how)
            steps = self.chunk.steps
            self._end = min(self._steps, steps) if self._steps else steps
        assert self.chunk is not None
        action: Array = self.chunk.actions[self._next]
        self._next += 1
        return action

    def clear(self) -> None:
        """Forget what is left, as at the beginning of an episode."""
        self._next = self._end = 0
