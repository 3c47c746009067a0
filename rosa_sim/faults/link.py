"""What a bad link does to messages: decides which copies leave when. Pure, seeded, time is an argument."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

UP = "up"  # robot -> gateway
DOWN = "down"  # gateway -> robot

NONE = "none"
KINDS = (
    NONE,
    "drop",
    "delay",
    "jitter",
    "duplicate",
    "reorder",
    "corrupt",
    "partition_up",
    "partition_down",
)
MAX_FLIPPED = 8  # bytes of one corrupted message


class LinkFaultError(ValueError):
    """An invalid link fault; the text says what came and what was expected."""


@dataclass(frozen=True)
class LinkFault:
    """What happens to messages: `kind` is one of KINDS; the numbers matter to the kinds that they name."""

    kind: str = NONE
    probability: float = 1.0  # drop, duplicate, reorder, corrupt: of each message
    seconds: float = 0.0  # delay: one way; jitter: at most, one way; reorder: held back at most so long

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise LinkFaultError(f"kind: expected one of {', '.join(KINDS)}, got {self.kind!r}")
        if not 0 <= self.probability <= 1:
            raise LinkFaultError(f"probability: expected 0 to 1, got {self.probability!r}")
        if not 0 <= self.seconds <= 60:
            raise LinkFaultError(f"seconds: expected 0 to 60, got {self.seconds!r}")


@dataclass(frozen=True)
class Parcel:
    """One message on its way: when it leaves, in which direction, for which robot, and its frames."""

    due_s: float
    direction: str
    robot: bytes  # ZeroMQ identity of the robot's connection
    frames: Sequence[Any]


class BadLink:
    """Takes messages, gives back those that are due. Without a fault every message leaves at once and in order."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._waiting: list[Parcel] = []
        self._held: dict[
            tuple[str, bytes], Parcel
        ] = {}  # reorder: waits for the next message of its direction
        self.fault = LinkFault()
        self.counts = {"passed": 0, "dropped": 0, "delayed": 0, "duplicated": 0, "corrupted": 0, "held": 0}

    def begin(self, fault: LinkFault) -> None:
        """Set the fault from now on. Messages that an earlier fault delayed stay delayed."""
        self.fault = fault

    def take(self, now_s: float, direction: str, robot: bytes, frames: Sequence[Any]) -> None:
        """A message comes in; `frames` without the identity."""
        fault = self.fault
        hit = self._random.random() < fault.probability
        parcel = Parcel(now_s, direction, robot, frames)
        if fault.kind == f"partition_{direction}" or (fault.kind == "drop" and hit):
            self.counts["dropped"] += 1
        elif fault.kind == "delay":
            self._later(parcel, fault.seconds)
        elif fault.kind == "jitter":
            self._later(parcel, self._random.uniform(0, fault.seconds))
        elif fault.kind == "duplicate" and hit:
            self.counts["duplicated"] += 1
            self._waiting += [parcel, parcel]
        elif fault.kind == "corrupt" and hit:
            self.counts["corrupted"] += 1
            self._waiting.append(Parcel(now_s, direction, robot, flipped(frames, self._random)))
        elif fault.kind == "reorder" and hit and (direction, robot) not in self._held:
            self.counts["held"] += 1
            self._held[direction, robot] = Parcel(now_s + fault.seconds, direction, robot, frames)
        else:
            self._waiting.append(parcel)
            before = self._held.pop((direction, robot), None)
            if before is not None:  # it leaves right after the one that came later
                self._waiting.append(Parcel(now_s, direction, robot, before.frames))

    def due(self, now_s: float) -> list[Parcel]:
        """The messages that leave now, in the order of their due times."""
        for key in [key for key, parcel in self._held.items() if parcel.due_s <= now_s]:
            self._waiting.append(self._held.pop(key))
        leaving = [parcel for parcel in self._waiting if parcel.due_s <= now_s]
        if leaving:
            self._waiting = [parcel for parcel in self._waiting if parcel.due_s > now_s]
            leaving.sort(key=lambda parcel: parcel.due_s)  # stable: equal times keep their order
            self.counts["passed"] += len(leaving)
        return leaving

    def next_due_s(self) -> float | None:
        """When `due` has something next; None while nothing waits."""
        times = [parcel.due_s for parcel in (*self._waiting, *self._held.values())]
        return min(times, default=None)

    def _later(self, parcel: Parcel, seconds: float) -> None:
        self.counts["delayed"] += 1
        self._waiting.append(Parcel(parcel.due_s + seconds, parcel.direction, parcel.robot, parcel.frames))


def flipped(frames: Sequence[Any], rng: random.Random) -> list[bytes]:
    """`frames` with 1 to MAX_FLIPPED bytes changed in one of them, which is chosen evenly: headers are short."""
    changed = [bytes(frame) for frame in frames]
    candidates = [index for index, frame in enumerate(changed) if frame]
    if not candidates:
        return changed
    index = rng.choice(candidates)
    body = bytearray(changed[index])
    for at in rng.sample(range(len(body)), min(len(body), rng.randint(1, MAX_FLIPPED))):
        body[at] ^= rng.randint(1, 255)
    changed[index] = bytes(body)
    return changed
