"""The engine: frames come from any thread, one loop runs the passes, each frame's caller gets its tokens.

`step` is the whole loop body and takes the time, so that tests and benchmarks drive it without a thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from math import inf
from threading import Condition, Thread
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rosa_server.engines.pipelined_decode.pipe import Frame, Left, Pass, Pipe, Seat

Observation = TypeVar("Observation")
Tokens = NDArray[np.int64]  # (K,)
SMOOTHING = 0.1  # share of the newest pass in the expected time of the next
WHY = {
    "expired": "its deadline came while it was in the pipe",
    "too_late": "its deadline comes before the pipe could answer",
    "cancelled": "it was cancelled",
}


class FrameLeft(TimeoutError):
    """A frame ended without an action; `cause` is one of `expired`, `too_late` and `cancelled`."""

    def __init__(self, left: Left) -> None:
        super().__init__(f"{left.cause}: {WHY[left.cause]}")
        self.cause = left.cause


class Runner(Protocol):
    """What runs a pass: `PackedForward`, or one that replays CUDA graphs."""

    tokens: Tensor  # (slots + 1, K)

    def run(self, do: Pass, prefixes: Tensor | None) -> None:
        """Add one token to every frame of the pass."""


class Engine(Generic[Observation]):
    """Pipelined decoding of observations, of which `embed` makes prefixes when they enter."""

    def __init__(self, pipe: Pipe, runner: Runner, embed: Callable[[Sequence[Observation]], Tensor]) -> None:
        """`embed`: observations -> prefixes `(n, L_P, width)`; it may raise, and its frames fail with it."""
        self._pipe, self._runner, self._embed = pipe, runner, embed
        self._changed = Condition()
        self._observations: dict[int, Observation] = {}
        self._answers: dict[int, Future[Tokens]] = {}
        self._next = 0
        self._pass_s = 0.0
        self._stopping = False
        self._thread: Thread | None = None

    def submit(
        self, observation: Observation, robot: str = "", deadline_s: float = inf
    ) -> tuple[int, Future[Tokens]]:
        """A frame's number, and its tokens when they are there. `deadline_s`: on the clock that `step` is told."""
        with self._changed:
            number = self._next
            self._next += 1
            answer: Future[Tokens] = Future()
            self._pipe.offer(Frame(number, robot, deadline_s))
            self._observations[number], self._answers[number] = observation, answer
            self._changed.notify()
        return number, answer

    def cancel(self, number: int) -> bool:
        """Nobody waits for this frame any more. False when it has ended."""
        with self._changed:
            known = self._pipe.cancel(number)
            left = self._pipe.left()
        self._say_left(left)
        return known

    def step(self, now_s: float) -> bool:
        """Run one pass. False when there is nothing to run."""
        with self._changed:
            do = self._pipe.next_pass(now_s, self._pass_s)
            left = self._pipe.left()
            entering = [self._observations.pop(seat.frame.number) for seat in do.enter] if do else []
        self._say_left(left)
        if do is None:
            return False
        prefixes = None
        with torch.inference_mode():
            if entering:
                try:
                    prefixes = self._embed(entering)
                except Exception as error:  # an observation that does not fit; those inside go on
                    self._fail(do.enter, error)
                    return True
            try:
                self._runner.run(do, prefixes)
                rows = self._runner.tokens.cpu().numpy()
            except Exception as error:  # whatever the model raises belongs to those who wait for it
                self._fail((*do.enter, *do.decode), error)
                return True
        with self._changed:
            finished = self._pipe.passed(do)
            answers = [(self._answers.pop(seat.frame.number), rows[seat.slot].copy()) for seat in finished]
        for answer, tokens in answers:
            answer.set_result(tokens)
        return True

    # -- in a thread of its own --

    def start(self) -> None:
        """Run passes from now on, whenever there is work."""
        self._thread = Thread(target=self._loop, name="pipelined-decode", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; frames that still wait are cancelled. May be called twice."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for number in list(self._answers):
            self.cancel(number)

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or len(self._pipe) > 0)
                if self._stopping:
                    return
            began_s = time.monotonic()
            if self.step(began_s):
                took_s = time.monotonic() - began_s
                self._pass_s += (took_s - self._pass_s) * (SMOOTHING if self._pass_s else 1.0)

    # -- ending without an action --

    def _say_left(self, left: Sequence[Left]) -> None:
        for one in left:
            self._observations.pop(one.frame.number, None)
            self._answers.pop(one.frame.number).set_exception(FrameLeft(one))

    def _fail(self, seats: Sequence[Seat], error: Exception) -> None:
        """These frames cannot go on. Their slots are free, and each caller gets the error."""
        with self._changed:
            for seat in seats:
                self._pipe.cancel(seat.frame.number)
            failed = [self._answers.pop(one.frame.number) for one in self._pipe.left()]
        for answer in failed:
            answer.set_exception(error)
