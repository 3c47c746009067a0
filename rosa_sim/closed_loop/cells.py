"""What a robot of the fleet works on: a cell in physics (`physics.py`), or one whose progress is drawn from trials."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any, Protocol

from rosa_sim.closed_loop.table import Piece, Table

ONGOING, DONE, FAILED = "ongoing", "done", "failed"
GIVEN_UP_S = 20.0  # of motion, after which a piece is given up; a clean one takes about 5 s


class PieceCell(Protocol):
    """Follows the clock of a fleet: every call says what time it is, never earlier than the call before."""

    def begin(self, now_s: float) -> None:
        """The next piece; the arm is at home."""

    def play(self, now_s: float, latency_s: float, actions: Any) -> None:
        """Execute a chunk whose observation is `latency_s` old."""

    def hold(self, now_s: float) -> None:
        """Stop."""

    def look(self, now_s: float) -> Any:
        """What the action model would see now."""

    def truth(self, now_s: float) -> str:
        """`ongoing`, `done` or `failed`."""


class DrawnCell:
    """Holds how much of its piece is done. Each chunk adds a share that trials in physics say."""

    def __init__(self, table: Table, steps: int, step_s: float, random: Random) -> None:
        """`steps` of `step_s` are executed of each chunk."""
        self._table, self._steps, self._random = table, steps, random
        self._period_s = steps * step_s
        self._piece: Piece | None = None
        self._progress = self._rate = 0.0
        self._since_s, self._until_s, self._ended_s = 0.0, -inf, -inf
        self._done = True

    def begin(self, now_s: float) -> None:
        self._piece = self._table.draw(self._steps, self._random)
        self._progress, self._until_s, self._ended_s = 0.0, -inf, -inf

    def play(self, now_s: float, latency_s: float, actions: Any) -> None:
        self._advance(now_s)
        if self._piece is None:
            raise RuntimeError("DrawnCell: no piece has begun")
        rested_ms = max(0.0, now_s - latency_s - self._ended_s) * 1000
        if self._progress < 1:
            self._done = self._piece.done(rested_ms)
        self._rate = self._piece.share(rested_ms, latency_s * 1000) / self._period_s
        self._since_s = now_s
        self._until_s = self._ended_s = now_s + self._period_s

    def hold(self, now_s: float) -> None:
        self._advance(now_s)
        self._until_s, self._ended_s = -inf, min(self._ended_s, now_s)

    def look(self, now_s: float) -> None:
        return None

    def truth(self, now_s: float) -> str:
        self._advance(now_s)
        if self._piece is None or self._progress < 1 - 1e-9:
            return ONGOING
        return DONE if self._done else FAILED

    def _advance(self, now_s: float) -> None:
        to_s = min(now_s, self._until_s)
        if to_s > self._since_s:
            self._progress += (to_s - self._since_s) * self._rate
            self._since_s = to_s
