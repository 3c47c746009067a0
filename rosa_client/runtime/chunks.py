"""What the core remembers of the chunk that plays and of the one that shall join it. Plain data; see `ahead.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Playing:
    """The chunk that the arm plays: `actions` `(horizon, joints + 1)`, `step_s` apart.

    `zero_s`: when its own time, which runs slower with a velocity scale, was zero.
    """

    actions: npt.NDArray[Any]
    step_s: float
    zero_s: float


@dataclass(frozen=True)
class Asked:
    """A call that was sent while a chunk played: when its chunk begins, and how many of its steps are frozen."""

    zero_s: float
    frozen: int


@dataclass(frozen=True)
class Part:
    """What is played of a chunk, in the chunk's own time."""

    skip_s: float
    lasts_s: float
