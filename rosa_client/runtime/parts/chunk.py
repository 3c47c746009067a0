"""The chunk that plays, and the one that shall join it; when and how: `ahead.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy.typing as npt

from rosa_contract.wire.overlap import Overlap


@dataclass(frozen=True, eq=False)
class Playing:
    """The chunk that the arm plays: `actions` `(horizon, joints + grippers)`, `step_s` apart.

    `zero_s`: when its own time, which runs slower with a velocity scale, was zero.
    """

    actions: npt.NDArray[Any]
    step_s: float
    zero_s: float


@dataclass(frozen=True)
class AskedAhead:
    """A call that was sent while a chunk played: when its chunk begins, how many of its steps are frozen, and what it
    was told of the chunk that plays."""

    zero_s: float
    frozen: int
    overlap: Overlap | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ChunkPart:
    """What is played of a chunk, in the chunk's own time."""

    skip_s: float
    lasts_s: float


class Chunk:
    """The chunk that plays and the one that was asked for. Only this class writes what is here."""

    def __init__(self) -> None:
        self.ends_s = 0.0
        self.playing: Playing | None = None  # the newest one
        self.ask_next_s = inf  # when the next one is asked for while this one plays
        self.asked: AskedAhead | None = (
            None  # how the newest System 1 call continues a chunk; None: it does not
        )

    def begins(self, playing: Playing, ends_s: float, ask_next_s: float) -> None:
        """`playing` plays until `ends_s`; the next one is asked for at `ask_next_s`, inf for when it has ended."""
        self.playing, self.ends_s, self.ask_next_s = playing, ends_s, ask_next_s

    def asks(self, asked: AskedAhead | None) -> None:
        """System 1 is called, for what continues the chunk that plays, or None."""
        self.asked = asked

    def plays_out(self) -> None:
        """It plays to its end, and the next one is asked for when the arm stands."""
        self.ask_next_s = inf
