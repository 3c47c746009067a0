"""What engines have in common: calls come from any thread, one loop does turns, each caller gets its answer.

`step` is the whole loop body and takes the time, so that tests and benchmarks drive an engine without a thread.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from threading import Condition, Thread
from typing import Generic, TypeVar

Turn = TypeVar("Turn")
Open = TypeVar("Open")
SMOOTHING = 0.1  # share of the newest turn in the expected time of the next


class LoopedEngine(ABC, Generic[Turn, Open]):
    """Does turns while anything is open. `_changed` guards all state and is notified of new calls."""

    def __init__(self, name: str) -> None:
        """`name`: of its thread."""
        self._name = name
        self._changed = Condition()
        self._open: dict[int, Open] = {}  # what has not ended, by its number
        self._next = 0  # number of the next call
        self._stopping = False
        self._thread: Thread | None = None

    @abstractmethod
    def step(self, now_s: float) -> Turn | None:
        """Do one turn and return it; None when there is nothing to do. What a model raises ends those of the turn."""

    @abstractmethod
    def learn(self, turn: Turn, took_s: float) -> None:
        """A turn took so long: what the next ones are expected to take."""

    @abstractmethod
    def cancel(self, number: int) -> bool:
        """Nobody waits for this any more: what it holds is free at once. False when it has ended."""

    def start(self) -> None:
        """Do turns from now on, whenever there is work."""
        self._thread = Thread(target=self._loop, name=self._name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; what is still open is cancelled. May be called twice."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for number in list(self._open):
            self.cancel(number)

    def _add(self, one: Open) -> None:
        """One more is open, under the number `_next`. Call it with `_changed` held."""
        self._open[self._next] = one
        self._next += 1
        self._changed.notify()

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or bool(self._open))
                if self._stopping:
                    return
            began_s = time.monotonic()
            turn = self.step(began_s)
            if turn is not None:
                self.learn(turn, time.monotonic() - began_s)


def smoothed(before_s: float, took_s: float) -> float:
    """The expected time after one more measurement; 0: nothing was known."""
    return before_s + (took_s - before_s) * (SMOOTHING if before_s else 1.0)
