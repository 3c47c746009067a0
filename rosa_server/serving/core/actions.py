"""What the serving core asks the gateway to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rosa_contract import messages as m
from rosa_server.serving.core.ledger import Call


@dataclass(frozen=True, slots=True)
class Say:
    """Send a message to a robot's connection."""

    connection: bytes
    message: m.ToRobot


@dataclass(frozen=True, slots=True)
class Reply:
    """The final answer to a call; `output` is the worker's frame, untouched, with status ok."""

    call: Call
    status: str  # of the response, `messages.STATUSES`
    cause: str  # `messages.CAUSES`; empty with status ok
    reason: str
    ended_s: float
    inference_ms: float = 0.0
    batch_size: int = 0
    output: Any = None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send a batch to a worker."""

    worker_id: str
    batch_id: int
    buffer: int  # the part of the shared memory that no other batch of this worker uses
    buffers: int  # how many parts there are
    calls: Sequence[Call]
    size: int  # requests that the worker runs together from here on: more than `calls` where it runs several at once


@dataclass(frozen=True, slots=True)
class Cancel:
    """Tell a worker that nobody waits for these tickets any more."""

    worker_id: str
    tickets: Sequence[int]


@dataclass(frozen=True, slots=True)
class Kill:
    """End a worker that hangs or breaks the protocol; the cluster starts another."""

    worker_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Log what happens to the schedule: a failover, an admission, a batch smaller than planned."""

    event: str
    fields: Mapping[str, Any]


Action = Say | Reply | Dispatch | Cancel | Kill | Note
