"""What the gateways of one schedule say to each other.

Nothing here is a time of day: what is left of a budget, and how long a message was kept, are durations, and each
machine counts them with its own clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rosa_contract.wire.bounds import MAX_BATCH, MAX_BUDGET_MS, MAX_DURATION_MS, MAX_ROBOTS
from rosa_contract.wire.causes import CAUSES
from rosa_contract.wire.containers import Map, Pair, Several
from rosa_contract.wire.rules import (
    FLAG,
    ID,
    NAME,
    SHORT_TEXT,
    TEXT,
    Choice,
    InFrames,
    Number,
    Whole,
    declared,
)
from rosa_contract.wire.schema import Object
from rosa_contract.wire.status import WORDS
from rosa_contract.wire.work import WorkerReady
from rosa_server.plan.fleet_plan import FleetPlan

MAX_ROOM = 1_000_000  # where models run on CPUs
DURATION = Number(0.0, MAX_DURATION_MS)
GRANTS = Map(Pair(ID, SHORT_TEXT, "[number, robot]"), MAX_ROBOTS)
# Why a gateway does not run what another one forwards; then nobody has run it.
NOT_TAKEN = {
    "old_epoch": "the sender's schedule is older than the replica here",
    "not_warm": "the replica has no worker here, or its worker is about to stop",
    "unknown_call": "the task has no such component here, or the replica runs another model",
}


@dataclass(frozen=True)
class PeerHello:
    """The first message on every connection. Nothing is accepted before it, and one of another schedule ends the
    connection.
    """

    node: str = declared(NAME, "node of the sending gateway; the connection's key must be that gateway's")
    life: str = declared(SHORT_TEXT, "identifier of the sending process; changes with every start")
    schedule: str = declared(NAME, "fingerprint of the schedule, nodes and tasks that it was started with")


@dataclass(frozen=True)
class Beat:
    """A gateway's heartbeat, sent to every other gateway several times a second."""

    node: str = declared(NAME, "node of the sending gateway")
    life: str = declared(SHORT_TEXT, "identifier of the sending process; changes with every start")
    epoch: int = declared(ID, "number of the schedule that the sender runs")
    number: int = declared(ID, "sequence number of the beats to this gateway; lower numbers are outdated")
    answers: int = declared(ID, "number of the last beat received from this gateway; 0: none", 0)
    held_ms: float = declared(DURATION, "time since that beat was received", 0.0)
    warm: Sequence[WorkerReady] = declared(
        Several(Object(WorkerReady), MAX_BATCH, list),
        "one warm worker for each of its replicas that has any",
        (),
    )
    grants: Mapping[str, tuple[int, str]] = declared(
        GRANTS,
        "slot that it grants -> how often it was granted, and the robot that holds it (empty: none); only"
        " slots changed since the last beat known to be received",
        dict,
    )
    returned: Mapping[str, tuple[int, str]] = declared(
        GRANTS,
        "slot of another gateway -> number and robot of a grant that was returned here",
        dict,
    )
    change: str = declared(
        SHORT_TEXT,
        "schedule change that this gateway is making, or leaves to another gateway, as LIFE/NUMBER of the"
        " gateway that makes it; empty: none",
        "",
    )
    room: int = declared(Whole(0, MAX_ROOM), "number of further servers that the node has GPUs for", 0)


@dataclass(frozen=True)
class Forward:
    """A robot's call, forwarded to a worker on the receiving gateway's node."""

    number: int = declared(ID, "number of the call at the sending gateway")
    life: str = declared(SHORT_TEXT, "identifier of the sending process")
    epoch: int = declared(ID, "number of the schedule that the sender runs")
    session: int = declared(ID, "session of the robot at the sending gateway")
    request_id: int = declared(ID, "call number chosen by the robot")
    robot_id: str = declared(NAME, "robot name")
    component: str = declared(NAME, "component of the robot's task")
    task: str = declared(NAME, "task of the robot")
    replica: str = declared(NAME, "replica to run the call")
    budget_ms: float = declared(Number(0.0, MAX_BUDGET_MS), "time left until the deadline")
    network_ms: float = declared(
        DURATION, "part of that needed for the network, between the gateways and back to the robot"
    )
    over_rate: bool = declared(FLAG, "the robot exceeds its rate", False)
    observation: str = declared(SHORT_TEXT, "name of the observation, as in `Sender`", "")
    frames: Sequence[Any] = declared(
        InFrames("all further frames"), "the request exactly as its robot sent it", ()
    )
    to_life: str = declared(
        SHORT_TEXT, "identifier of the receiving process; a later process does not run the call", ""
    )


@dataclass(frozen=True)
class Forwarded:
    """The one answer to a forwarded call."""

    number: int = declared(ID, "as in `Forward`")
    life: str = declared(SHORT_TEXT, "as in `Forward`")
    epoch: int = declared(ID, "number of the schedule under which it was run or refused")
    session: int = declared(ID, "as in `Forward`")
    request_id: int = declared(ID, "as in `Forward`")
    not_taken: str = declared(
        Choice(NOT_TAKEN, empty=True), "why it was not run here; empty: it was accepted", ""
    )
    cause: str = declared(Choice(CAUSES, empty=True), "why there is no output; empty if there is one", "")
    reason: str = declared(TEXT, "explanation of the cause", "")
    inference_ms: float = declared(DURATION, "time in the model", 0.0)
    batch_size: int = declared(Whole(0, MAX_BATCH), "number of requests in the batch", 0)
    output: Any = declared(InFrames("the second frame"), "an encoded `Output`, if there is one", None)


@dataclass(frozen=True)
class ForwardCancel:
    """No one waits for these forwarded calls any more."""

    life: str = declared(SHORT_TEXT, "as in `Forward`")
    numbers: Sequence[int] = declared(Several(ID, MAX_BATCH, list), "numbers from `Forward`")


@dataclass(frozen=True)
class PeerPlan:
    """The sender's schedule, for a gateway that runs an older one."""

    plan: FleetPlan = declared(
        InFrames("the second frame"), "the schedule as JSON, see `rosa_server/plan/fleet_plan.py`"
    )


@dataclass(frozen=True)
class PeerOrder:
    """An operator's order to one gateway that another gateway has to carry out."""

    number: int = declared(ID, "order number at the sending gateway, repeated in the answer")
    what: str = declared(NAME, "what to do")
    target: str = declared(NAME, "server of the schedule, worker, model or robot that it is about")
    value: str = declared(WORDS, "argument of the order; may be empty")
    by: str = declared(NAME, "who ordered it")


@dataclass(frozen=True)
class PeerOrderTold:
    """Progress or result of another gateway's order."""

    number: int = declared(ID, "order number from `PeerOrder`")
    ended: bool = declared(FLAG, "whether the order has ended", False)
    cause: str = declared(SHORT_TEXT, "why it was not carried out; empty if it was", "")
    reason: str = declared(TEXT, "explanation, or what was done", "")


ToPeer = Beat | Forward | Forwarded | ForwardCancel | PeerPlan
ToDesk = PeerOrder | PeerOrderTold  # what a gateway's core has nothing to do with
