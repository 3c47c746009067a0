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

MAX_SIZES = 256  # of batches that a worker has, as CUDA graphs for instance
DURATION = Number(0.0, MAX_DURATION_MS)
CAMERA_NAMES = Several(Text(MAX_NAME_CHARS, 1), MAX_ARRAYS)
TICKETS = Several(ID, MAX_BATCH, list)


@dataclass(frozen=True)
class WorkerReady:
    """A worker has loaded and warmed up its model."""

    worker_id: str = declared(NAME, "worker name, given by the gateway")
    model: str = declared(NAME, "the model that it runs")
    max_batch: int = declared(Whole(1, MAX_BATCH), "maximum requests per batch")
    images: Mapping[str, tuple[int, int]] = declared(
        Map(Pair(SIDE, SIDE, "[height, width]"), MAX_IMAGES),
        "camera -> picture size that the model takes",
        dict,
    )
    state: Mapping[str, int] = declared(
        Map(Whole(1, MAX_LENGTH), MAX_ARRAYS), "state -> number of values that the model takes", dict
    )
    at_once: int = declared(
        Whole(1, MAX_BATCH),
        "number of calls that it runs at a time, each answered separately, if the model batches"
        " continuously; 1: it does not",
        1,
    )
    shares: bool = declared(FLAG, "calls that share an observation are cheaper than calls that do not", False)
    resizes: Sequence[str] = declared(CAMERA_NAMES, "cameras for which `images` is only the maximum size", ())
    unused: Sequence[str] | None = declared(
        CAMERA_NAMES, "other cameras and states that a robot may have; none: any", None
    )
    actions: str = declared(
        SHORT_TEXT, "action space of its answers; empty: joint positions, or no actions", ""
    )
    epoch: int = declared(ID, "number of the schedule that it was started for", 0)
    batch_sizes: Sequence[int] = declared(
        Several(Whole(1, MAX_BATCH), MAX_SIZES),
        "the only batch sizes that it has; others are padded to the next. Empty: it runs every size as it is",
        (),
    )


@dataclass(frozen=True)
class Sender:
    """The sender of a request, the time left until its deadline, and its waiting time at the server."""

    robot_id: str = declared(NAME, "robot name")
    budget_ms: float = declared(Number(-MAX_DURATION_MS, MAX_DURATION_MS), "time left until the deadline")
    waited_ms: float = declared(DURATION, "time since the request arrived")
    observation: str = declared(
        SHORT_TEXT,
        "name of its observation, unique to this robot; empty: none",
        "",
    )


@dataclass(frozen=True)
class Execute:
    """Run this batch."""

    batch_id: int = declared(ID, "batch number")
    tickets: Sequence[int] = declared(TICKETS, "one number per request")
    frames: Sequence[Sequence[Any]] = declared(
        InFrames("`frame_counts`, a list of whole numbers, in the header; then the frames of each request"),
        "the requests exactly as their robots sent them",
    )
    senders: Sequence[Sender] = declared(
        Several(Object(Sender), MAX_BATCH, list), "one sender per request; empty: not given for any", ()
    )


@dataclass(frozen=True)
class Executed:
    """A batch is done."""

    batch_id: int = declared(ID, "batch number")
    tickets: Sequence[int] = declared(TICKETS, "as in `Execute`")
    inference_ms: float = declared(DURATION, "time in the model")
    errors: Sequence[tuple[str, str]] = declared(
        Several(Pair(Choice(CAUSES, empty=True), ANY_TEXT, "[cause, reason]"), MAX_BATCH, list),
        "one pair per ticket; both empty if the request succeeded",
    )
    outputs: Sequence[Any] = declared(
        InFrames("a frame for each ticket"), "an encoded `Output`; empty if there is an error"
    )
    counts: Mapping[str, int] = declared(
        Map(ID, MAX_COUNTS), "counters of the worker's engine since it started, if it has any", dict
    )
    decode_ms: Sequence[float] = declared(
        Several(DURATION, MAX_BATCH, list),
        "CPU time for decoding each ticket's pictures; empty: not measured",
        (),
    )
    epoch: int = declared(ID, "number of the schedule that the worker was started for", 0)


@dataclass(frozen=True)
class CancelTickets:
    """No one waits for these requests any more. The worker still answers each of them, as soon as it can.

    Sent only to workers that run several calls at a time (`at_once`); others read no messages while they run.
    """

    tickets: Sequence[int] = declared(TICKETS, "as in `Execute`")


@dataclass(frozen=True)
class Drain:
    """Finish the current work and exit."""
