"""What a model answered, and what that took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rosa_client.robot.errors import RobotError
from rosa_contract.config.spaces import chunks_in
from rosa_contract.wire.messages import Array, Output, Response


@dataclass(frozen=True)
class Answer:
    """The answer to one call. Times are in ms; `round_trip_ms` is measured here, the others on the server."""

    arrays: Mapping[str, Array]  # the model's arrays by name
    text: str  # output of a planner
    verdict: str  # output of a safety checker or monitor
    horizon: int  # number of steps of the chunk to play, if the server chose it; otherwise 0
    round_trip_ms: float  # from sending the request to receiving the answer
    queue_ms: float  # time in the server's queue
    inference_ms: float  # time in the model
    batch_size: int  # number of requests in the batch

    @property
    def actions(self) -> Array:
        """The action chunk, (horizon, values) float32: joint positions, or another action space named in `arrays`.

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
        """Number of rows of `actions` to play."""
        return min(self.horizon, len(self.actions)) or len(self.actions)


def answer_of(response: Response, output: Output, round_trip_ms: float) -> Answer:
    times = (round_trip_ms, response.queue_ms, response.inference_ms, response.batch_size)
    return Answer(output.arrays, output.text, output.verdict, output.horizon, *times)
