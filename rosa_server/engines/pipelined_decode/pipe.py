"""What enters the pipe, what advances and what leaves it: ActionFlow's Algorithm 1, across robots. Pure, no tensors.

A frame needs K passes: one prefill and K - 1 decode steps. Each pass packs the prefill of frames that enter with one
decode step of every frame inside, so up to K frames of one robot, or frames of many robots, share a pass. A frame has
one slot of the KV buffer from its prefill to its last token, and the slot belongs to its robot so long.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf
from typing import Literal

Cause = Literal["expired", "too_late", "cancelled"]


@dataclass(frozen=True, slots=True)
class PipeFrame:
    """One observation that waits for an action. `number` is its name and grows with every frame."""

    number: int
    robot: str = ""
    deadline_s: float = inf


@dataclass(frozen=True, slots=True)
class PipeSeat:
    """A frame in its slot. `step`: how many tokens it has; 0: this pass is its prefill."""

    frame: PipeFrame
    slot: int
    step: int


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the weights."""

    enter: tuple[PipeSeat, ...]
    decode: tuple[PipeSeat, ...]  # in the order of their slots


@dataclass(frozen=True, slots=True)
class Left:
    """A frame that ends without an action, and why."""

    frame: PipeFrame
    cause: Cause


class Pipe:
    """The frames that wait and those inside. Every offered frame ends once: in `passed`, or in `left`."""

    def __init__(self, action_tokens: int, slots: int, enter_at_once: int = 1, packed: bool = True) -> None:
        """`packed`: prefill and decode steps share a pass; if not, they alternate, as in plain continuous batching."""
        if action_tokens < 1 or slots < 1 or enter_at_once < 1:
            raise ValueError(
                f"Pipe: expected at least 1 token, slot and frame at once; got {action_tokens}, {slots},"
                f" {enter_at_once}"
            )
        self.action_tokens, self.slots, self.enter_at_once = action_tokens, slots, enter_at_once
        self._packed = packed
        self._waiting: dict[int, PipeFrame] = {}
        self._inside: dict[int, PipeSeat] = {}  # by slot
        self._left: list[Left] = []
        self.finished = self.passes = 0  # frames and passes so far
        self.gone: Counter[Cause] = Counter()  # frames without an action so far

    def __len__(self) -> int:
        """Frames that have not ended."""
        return len(self._waiting) + len(self._inside)

    def offer(self, frame: PipeFrame) -> None:
        """A frame waits from now on. Raises `ValueError` for a number that is in use."""
        if frame.number in self._waiting or any(
            seat.frame.number == frame.number for seat in self._inside.values()
        ):
            raise ValueError(f"frame {frame.number} is already in the pipe")
        self._waiting[frame.number] = frame

    def cancel(self, number: int) -> bool:
        """Nobody wants this frame any more; its slot is free at once. False when it has ended."""
        frame = self._waiting.pop(number, None)
        if frame is None:
            seat = next((one for one in self._inside.values() if one.frame.number == number), None)
            if seat is None:
                return False
            frame = self._inside.pop(seat.slot).frame
        self._left.append(Left(frame, "cancelled"))
        return True

    def next_pass(self, now_s: float, pass_s: float = 0.0) -> Pass | None:
        """What to run now; None when nothing is to be done. `pass_s`: how long a pass is expected to take.

        A frame whose deadline has come leaves; one that cannot be done by its deadline does not enter.
        """
        self._expire(now_s, pass_s)
        enter = self._enter()
        decode = sorted((seat for seat in self._inside.values() if seat.step > 0), key=lambda seat: seat.slot)
        if enter and not self._packed:
            decode = []
        return Pass(tuple(enter), tuple(decode)) if enter or decode else None

    def passed(self, done: Pass) -> list[PipeSeat]:
        """The pass has run: each of its frames has one token more. Returns those that have all, now out of the pipe.

        A frame that was cancelled meanwhile is no longer here, and is not returned.
        """
        finished = []
        self.passes += 1
        for seat in (*done.enter, *done.decode):
            if self._inside.get(seat.slot) is not seat:
                continue
            if seat.step + 1 == self.action_tokens:
                finished.append(self._inside.pop(seat.slot))
            else:
                self._inside[seat.slot] = PipeSeat(seat.frame, seat.slot, seat.step + 1)
        self.finished += len(finished)
        return finished

    def left(self) -> list[Left]:
        """The frames that ended without an action since the last call."""
        left, self._left = self._left, []
        self.gone.update(one.cause for one in left)
        return left

    def _expire(self, now_s: float, pass_s: float) -> None:
        for seat in list(self._inside.values()):
            if seat.frame.deadline_s <= now_s:
                del self._inside[seat.slot]
                self._left.append(Left(seat.frame, "expired"))
        needs_s = self.action_tokens * pass_s
        for frame in list(self._waiting.values()):
            if frame.deadline_s <= now_s or frame.deadline_s < now_s + needs_s:
                del self._waiting[frame.number]
                cause: Cause = "expired" if frame.deadline_s <= now_s else "too_late"
                self._left.append(Left(frame, cause))

    def _enter(self) -> list[PipeSeat]:
        """Robots with fewer frames inside first, then the earliest deadline, then the oldest."""
        entered: list[PipeSeat] = []
        inside = Counter(seat.frame.robot for seat in self._inside.values())
        free = [slot for slot in range(self.slots) if slot not in self._inside]
        while self._waiting and free and len(entered) < self.enter_at_once:
            frame = min(
                self._waiting.values(), key=lambda one: (inside[one.robot], one.deadline_s, one.number)
            )
            del self._waiting[frame.number]
            inside[frame.robot] += 1
            seat = PipeSeat(frame, free.pop(0), 0)
            self._inside[seat.slot] = seat
            entered.append(seat)
        return entered
