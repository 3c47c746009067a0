"""What the serving core asks the gateway to do.

Named tuples: some are made for every call, and a frozen dataclass takes twice as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rosa_contract.wire import messages as m
from rosa_server.plan.peering import ToPeer
from rosa_server.serving.core.queueing.ledger import Call


class Say(NamedTuple):
    """Send a message to a robot's connection."""

    connection: bytes
    message: m.ToRobot


class Reply(NamedTuple):
    """The final answer to a call; `output` is the worker's frame, untouched, with status ok."""

    call: Call
    status: str  # of the response, `messages.STATUSES`
    cause: str  # `messages.CAUSES`; empty with status ok
    reason: str
    ended_s: float
    inference_ms: float = 0.0
    batch_size: int = 0
    output: Any = None


class Dispatch(NamedTuple):
    """Send a batch to a worker."""

    worker_id: str
    batch_id: int
    buffer: int  # the part of the shared memory that no other batch of this worker uses
    buffers: int  # how many parts there are
    calls: Sequence[Call]
    size: int  # requests that the worker runs together from here on: more than `calls` where it runs several at once


class Cancel(NamedTuple):
    """Tell a worker that nobody waits for these tickets any more."""

    worker_id: str
    tickets: Sequence[int]


class Kill(NamedTuple):
    """End a worker that hangs or breaks the protocol; the cluster starts another."""

    worker_id: str
    reason: str


class Note(NamedTuple):
    """Log what happens to the schedule: a failover, an admission, a batch smaller than planned."""

    event: str
    fields: Mapping[str, Any]


class Tell(NamedTuple):
    """Send a message to another gateway of this schedule."""

    node: str
    message: ToPeer


class Visit(NamedTuple):
    """A robot has joined or left. No action: whoever keeps records takes it from the core when it likes."""

    event: str  # robot_joined or robot_left
    robot: str
    task: str
    slot: str  # empty without a schedule
    reason: str  # why it has left


Action = Say | Reply | Dispatch | Cancel | Kill | Note | Tell
