"""The engine: frames come from any thread, one loop runs the passes, each frame's caller gets its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from math import inf
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rosa_server.engines.looped import LoopedEngine, smoothed
from rosa_server.engines.pipelined_decode.pipe import Cause, Pass, Pipe, PipeFrame, PipeSeat

Observation = TypeVar("Observation")
Tokens = NDArray[np.int64]  # (K,)
WHY = {
    "expired": "its deadline came while it was in the pipe",
    "too_late": "its deadline comes before the pipe could answer",
    "cancelled": "it was cancelled",
}


class FrameLeft(TimeoutError):
    """A frame ended without an action; `cause` is one of `expired`, `too_late` and `cancelled`."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(f"{cause}: {WHY[cause]}")
        self.cause = cause


class Runner(Protocol):
    """What runs a pass: `PackedForward`, or one that replays CUDA graphs."""

    tokens: Tensor  # (slots + 1, K)

    def run(self, do: Pass, prefixes: Tensor | None) -> None:
        """Add one token to every frame of the pass."""


@dataclass(frozen=True, slots=True)
class _Open(Generic[Observation]):
    observation: Observation
    answer: Future[Tokens]


class Engine(LoopedEngine[Pass, _Open[Observation]], Generic[Observation]):
    """Pipelined decoding of observations, of which `embed` makes prefixes when they enter."""

    def __init__(self, pipe: Pipe, runner: Runner, embed: Callable[[Sequence[Observation]], Tensor]) -> None:
        """`embed`: observations -> prefixes `(n, L_P, width)`; it may raise, and its frames fail with it."""
        super().__init__("pipelined-decode")
        self._pipe, self._runner, self._embed = pipe, runner, embed
        self._pass_s = 0.0

    def submit(
        self, observation: Observation, robot: str = "", deadline_s: float = inf
    ) -> tuple[int, Future[Tokens]]:
        """A frame's number, and its tokens when they are there. `deadline_s`: on the clock that `step` is told.

        Its future raises `FrameLeft` where it ends without them.
        """
        answer: Future[Tokens] = Future()
        with self._changed:
            number = self._next
            self._pipe.offer(PipeFrame(number, robot, deadline_s))
            self._add(_Open(observation, answer))
        return number, answer

    def cancel(self, number: int) -> bool:
        """Nobody waits for this frame any more. False when it has ended."""
        with self._changed:
            known = self._pipe.cancel(number)
            left = self._left()
        _tell(left)
        return known

    def step(self, now_s: float) -> Pass | None:
        """Run one pass and return it; None when there is nothing to run."""
        with self._changed:
            do = self._pipe.next_pass(now_s, self._pass_s)
            left = self._left()
            entering = [self._open[seat.frame.number].observation for seat in do.enter] if do else []
        _tell(left)
        if do is None:
            return None
        failing = do.enter  # an observation that does not fit is alone; those inside go on
        try:
            with torch.inference_mode():
                prefixes = self._embed(entering) if entering else None
                failing = (*do.enter, *do.decode)
                self._runner.run(do, prefixes)
                rows = self._runner.tokens.cpu().numpy()
        except Exception as error:  # whatever the model raises belongs to those that wait for it
            self._fail(failing, error)
            return do
        with self._changed:
            finished = self._pipe.passed(do)
            answers = [
                (self._open.pop(seat.frame.number).answer, rows[seat.slot].copy()) for seat in finished
            ]
        for answer, tokens in answers:
            answer.set_result(tokens)
        return do

    def counts(self) -> dict[str, int]:
        """Passes and frames since the start; a frame that failed counts as cancelled."""
        with self._changed:
            gone = self._pipe.gone
            return {
                "passes": self._pipe.passes,
                "frames": self._pipe.finished,
                "frames_late": gone["expired"] + gone["too_late"],
                "frames_cancelled": gone["cancelled"],
            }

    def learn(self, turn: Pass, took_s: float) -> None:
        """A pass took so long."""
        self._pass_s = smoothed(self._pass_s, took_s)

    # -- ending without an action --

    def _left(self) -> list[tuple[Future[Tokens], Cause]]:
        """Forget the frames that have left. Whom to tell, outside the lock."""
        return [(self._open.pop(one.frame.number).answer, one.cause) for one in self._pipe.left()]

    def _fail(self, seats: Sequence[PipeSeat], error: Exception) -> None:
        """These frames cannot go on. Their slots are free, and each caller gets the error."""
        with self._changed:
            for seat in seats:
                self._pipe.cancel(seat.frame.number)
            failed = self._left()
        for answer, _ in failed:
            answer.set_exception(error)


def _tell(left: Sequence[tuple[Future[Tokens], Cause]]) -> None:
    for answer, cause in left:
        answer.set_exception(FrameLeft(cause))
