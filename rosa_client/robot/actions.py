"""`ActionQueue`: one action at a time from the chunks of a robot."""

from __future__ import annotations

from typing import Any

from rosa_client.robot.answer import Answer
from rosa_client.robot.blocking import Robot
from rosa_client.robot.observation import Observation
from rosa_contract.wire.messages import Array


class ActionQueue:
    """Returns the actions of a chunk one by one and requests the next chunk when they are used up.

    The caller sets the pace: one action per step of the chunk. To play chunks on an arm by time and within its limits,
    use `rosa_client.motion.chunk_player`.
    """

    def __init__(self, robot: Robot, steps: int = 0) -> None:
        """`steps`: number of actions to use from each chunk; 0: as many as the server chose, or all of them."""
        if steps < 0:
            raise ValueError(f"steps: expected 0 or more, got {steps}")
        self._robot, self._steps = robot, steps
        self._next = self._end = 0
        self.chunk: Answer | None = None  # the newest

    def next(self, observation: Observation, **how: Any) -> Array:
        """Return the next action, (values,) float32. `how`: keyword arguments for `Robot.infer`, whose errors it
        raises. After an error, no action of an older chunk is returned.
        """
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
        """Discard the remaining actions, for example when an episode begins."""
        self._next = self._end = 0
