"""Several models on one GPU take turns: one batch at a time, so that each takes as long as on its own GPU.

What shares a GPU and which batch sizes leave every call in time is decided beforehand (`scheduler/placement/turns.py`);
here, whose turn it is. The times of batches are known, so what a turn does to the others is known as well (as in
Clockwork). Gateway, prediction and planner ask the same function. Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Turn(NamedTuple):
    """The batch that a model would run now. Times in s."""

    since_s: float  # its first call has waited since then
    due_s: float  # its answers have to leave by then
    runs_s: float


def whose_turn(now_s: float, turns: Sequence[Turn]) -> int:
    """The position of the batch that runs next: the one that has waited longest, as long as all others can still be in
    time after it; else the one that is due first. Batches that are late in any case come after all others.
    """
    in_time = [index for index, turn in enumerate(turns) if now_s + turn.runs_s <= turn.due_s]
    left = in_time or range(len(turns))
    by_due = sorted(left, key=lambda index: turns[index].due_s)
    for index in sorted(left, key=lambda index: turns[index].since_s):
        if _in_time(now_s + turns[index].runs_s, [turns[other] for other in by_due if other != index]):
            return index
    return by_due[0]


def leaves_in_time(now_s: float, runs_s: float, others: Sequence[Turn]) -> bool:
    """Whether a batch that runs first, for so long, makes none of the others late that would be in time without it."""
    in_time = [turn for turn in others if now_s + turn.runs_s <= turn.due_s]
    return _in_time(now_s + runs_s, sorted(in_time, key=lambda turn: turn.due_s))


def _in_time(ends_s: float, turns: Sequence[Turn]) -> bool:
    """Whether batches that run in this order, from this time on, all end in time."""
    for turn in turns:
        ends_s += turn.runs_s
        if ends_s > turn.due_s:
            return False
    return True
