"""What a gateway and its workers say to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rosa_contract.wire.bounds import (
    MAX_ARRAYS,
    MAX_BATCH,
    MAX_COUNTS,
    MAX_DURATION_MS,
    MAX_IMAGES,
    MAX_LENGTH,
    MAX_NAME_CHARS,
)
from rosa_contract.wire.causes import CAUSES
from rosa_contract.wire.containers import Map, Pair, Several
from rosa_contract.wire.rules import (
    ANY_TEXT,
    FLAG,
    ID,
    NAME,
    SHORT_TEXT,
    SIDE,
    Choice,
    InFrames,
    Number,
    Text,
    Whole,
    declared,
)
from rosa_contract.wire.schema import Object

DURATION = Number(0.0, MAX_DURATION_MS)
CAMERA_NAMES = Several(Text(MAX_NAME_CHARS, 1), MAX_ARRAYS)
TICKETS = Several(ID, MAX_BATCH, list)


@dataclass(frozen=True)
class WorkerReady:
    """A worker has loaded and warmed up its model."""

    worker_id: str = declared(NAME, "its name, from the gateway")
    model: str = declared(NAME, "what it hosts")
    max_batch: int = declared(Whole(1, MAX_BATCH), "requests of one batch")
    images: Mapping[str, tuple[int, int]] = declared(
        Map(Pair(SIDE, SIDE, "[height, width]"), MAX_IMAGES), "camera -> size that the model takes", dict
    )
    state: Mapping[str, int] = declared(
        Map(Whole(1, MAX_LENGTH), MAX_ARRAYS), "state -> number of values that the model takes", dict
    )
    at_once: int = declared(
        Whole(1, MAX_BATCH),
        "calls that it runs at a time, each answered by itself, where the model batches continuously; 1: none",
        1,
    )
    shares: bool = declared(FLAG, "calls about one observation cost it less than calls about several", False)
    resizes: Sequence[str] = declared(CAMERA_NAMES, "cameras of which `images` is the largest size only", ())
    unused: Sequence[str] | None = declared(
        CAMERA_NAMES, "what a robot may have besides; without it: anything", None
    )
    actions: str = declared(
        SHORT_TEXT, "the space in which it answers; empty: joint positions, or no actions", ""
    )
    epoch: int = declared(ID, "number of the schedule that it was started for", 0)


@dataclass(frozen=True)
class Sender:
    """Whose request it is, how much of its deadline is left, and how long it has waited at the server."""

    robot_id: str = declared(NAME, "the robot's name")
    budget_ms: float = declared(Number(-MAX_DURATION_MS, MAX_DURATION_MS), "what is left of the deadline")
    waited_ms: float = declared(DURATION, "since the request came")
    observation: str = declared(
        SHORT_TEXT,
        "a name for what it is about, which no other robot's requests can have; empty: it has none",
        "",
    )


@dataclass(frozen=True)
class Execute:
    """Run this batch."""

    batch_id: int = declared(ID, "its number")
    tickets: Sequence[int] = declared(TICKETS, "a number for each request")
    frames: Sequence[Sequence[Any]] = declared(
        InFrames("`frame_counts`, a list of whole numbers, in the header; then the frames of each request"),
        "the requests exactly as their robots sent them",
    )
    senders: Sequence[Sender] = declared(
        Several(Object(Sender), MAX_BATCH, list), "whose they are; empty where nothing is said of any", ()
    )


@dataclass(frozen=True)
class Executed:
    """A batch is done."""

    batch_id: int = declared(ID, "its number")
    tickets: Sequence[int] = declared(TICKETS, "those of `Execute`")
    inference_ms: float = declared(DURATION, "how long the model took")
    errors: Sequence[tuple[str, str]] = declared(
        Several(Pair(Choice(CAUSES, empty=True), ANY_TEXT, "[cause, reason]"), MAX_BATCH, list),
        "one for each ticket; both empty where the request succeeded",
    )
    outputs: Sequence[Any] = declared(
        InFrames("a frame for each ticket"), "an encoded `Output`, or empty where `errors` says why"
    )
    counts: Mapping[str, int] = declared(
        Map(ID, MAX_COUNTS), "what the worker's engine has done since it started, where it counts", dict
    )
    decode_ms: Sequence[float] = declared(
        Several(DURATION, MAX_BATCH, list),
        "CPU time that the pictures of each ticket took; empty where nothing is said",
        (),
    )
    epoch: int = declared(ID, "number of the schedule that its worker was started for", 0)


@dataclass(frozen=True)
class CancelTickets:
    """Nobody waits for these any more. The worker answers each as it would otherwise, as soon as it can.

    Only for a worker that runs several calls at a time (`at_once`): any other reads nothing while it runs.
    """

    tickets: Sequence[int] = declared(TICKETS, "those of `Execute`")


@dataclass(frozen=True)
class Drain:
    """Finish what you have and exit."""
