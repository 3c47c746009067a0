"""What a model answered, and what that took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rosa_client.robot.errors import RobotError
from rosa_contract.config.spaces import chunks_in
from rosa_contract.wire.messages import Array, Output, Response


@dataclass(frozen=True)
class Answer:
    """The answer to one call. Times in ms: `round_trip_ms` is this side's, the others are the server's own."""

    arrays: Mapping[str, Array]
    text: str  # of a planner
    verdict: str  # of a safety checker or a monitor
    horizon: int  # steps of the chunk that are to be played, where the server chooses them; else 0
    round_trip_ms: float
    queue_ms: float
    inference_ms: float
    batch_size: int

    @property
    def actions(self) -> Array:
        """The action chunk, (horizon, values) float32: joint positions, or in the space whose name is in `arrays`.

        Raises `RobotError` (`no_actions`).
        """
        found = chunks_in(self.arrays)
        if not found:
            has = ", ".join(self.arrays) or "no arrays"
            raise RobotError("no_actions", f"the answer has no array 'actions' but {has}")
        chunk = self.arrays[found[0]]
        if chunk.ndim != 2 or not len(chunk):
            raise RobotError("no_actions", f"{found[0]}: expected (horizon, values), got {chunk.shape}")
        return chunk

    @property
    def steps(self) -> int:
        """How many rows of `actions` are to be played."""
        return min(self.horizon, len(self.actions)) or len(self.actions)


def answer_of(response: Response, output: Output, round_trip_ms: float) -> Answer:
    times = (round_trip_ms, response.queue_ms, response.inference_ms, response.batch_size)
    return Answer(output.arrays, output.text, output.verdict, output.horizon, *times)
