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
    "old_epoch": "its schedule is older than the replica here",
    "not_warm": "no worker of the replica is here, or it is about to end",
    "unknown_call": "its task has no such component here, or the replica is of another model",
}


@dataclass(frozen=True)
class PeerHello:
    """The first message of each connection. Nothing that comes over it counts without."""

    node: str = declared(NAME, "which one says it; the connection's key has to be that of this gateway")
    life: str = declared(SHORT_TEXT, "of its process: another one after each start")
    schedule: str = declared(
        NAME, "fingerprint of the schedule, the nodes and the tasks that it was started with"
    )


@dataclass(frozen=True)
class Beat:
    """A gateway is there: sent several times a second to each other one."""

    node: str = declared(NAME, "which one says it")
    life: str = declared(SHORT_TEXT, "of its process: another one after each start")
    epoch: int = declared(ID, "number of the schedule that it runs")
    number: int = declared(ID, "of the beats to this gateway; a lower one is an old one")
    answers: int = declared(ID, "the last beat that it has heard from this gateway; 0: none", 0)
    held_ms: float = declared(DURATION, "how long ago it has heard that", 0.0)
    warm: Sequence[WorkerReady] = declared(
        Several(Object(WorkerReady), MAX_BATCH, list), "a worker of each of its replicas that has one", ()
    )
    grants: Mapping[str, tuple[int, str]] = declared(
        GRANTS,
        "slot that it gives out -> how often it has, and the robot that has it (empty: nobody), of those that have"
        " changed since the last beat that it knows to be heard",
        dict,
    )
    returned: Mapping[str, tuple[int, str]] = declared(
        GRANTS,
        "slot of another gateway -> number and robot of a grant that a robot has given back here",
        dict,
    )
    change: str = declared(
        SHORT_TEXT,
        "the change of the schedule that this gateway makes, or leaves to another one: LIFE/NUMBER of the gateway that"
        " makes it; empty: none",
        "",
    )
    room: int = declared(Whole(0, MAX_ROOM), "further servers that the node has GPUs for", 0)


@dataclass(frozen=True)
class Forward:
    """A robot's call for a worker of the other gateway's node."""

    number: int = declared(ID, "of the call at the gateway of its robot")
    life: str = declared(SHORT_TEXT, "of that gateway's process")
    epoch: int = declared(ID, "number of the schedule that it runs")
    session: int = declared(ID, "of its robot")
    request_id: int = declared(ID, "the robot's own number of the call")
    robot_id: str = declared(NAME, "whose it is")
    component: str = declared(NAME, "which component of its task")
    task: str = declared(NAME, "its task")
    replica: str = declared(NAME, "what runs it")
    budget_ms: float = declared(Number(0.0, MAX_BUDGET_MS), "what is left of its deadline")
    network_ms: float = declared(
        DURATION, "of that, what the way back to the robot and between the gateways takes"
    )
    over_rate: bool = declared(FLAG, "its robot sends faster than it may", False)
    observation: str = declared(SHORT_TEXT, "a name for what it is about, as in `Sender`", "")
    frames: Sequence[Any] = declared(
        InFrames("all further frames"), "the request exactly as its robot sent it", ()
    )
    to_life: str = declared(SHORT_TEXT, "of the process that it is sent to; the next one does not run it", "")


@dataclass(frozen=True)
class Forwarded:
    """The one answer to a forwarded call."""

    number: int = declared(ID, "that of `Forward`")
    life: str = declared(SHORT_TEXT, "that of `Forward`")
    epoch: int = declared(ID, "number of the schedule in which it was run, or not taken")
    session: int = declared(ID, "that of `Forward`")
    request_id: int = declared(ID, "that of `Forward`")
    not_taken: str = declared(
        Choice(NOT_TAKEN, empty=True), "why nobody here runs it; empty: it was taken", ""
    )
    cause: str = declared(Choice(CAUSES, empty=True), "why it has no output; empty where it has one", "")
    reason: str = declared(TEXT, "the same in words", "")
    inference_ms: float = declared(DURATION, "how long the model took", 0.0)
    batch_size: int = declared(Whole(0, MAX_BATCH), "how many requests ran together", 0)
    output: Any = declared(InFrames("the second frame"), "an encoded `Output`, where there is one", None)


@dataclass(frozen=True)
class ForwardCancel:
    """Nobody waits for these forwarded calls any more."""

    life: str = declared(SHORT_TEXT, "that of `Forward`")
    numbers: Sequence[int] = declared(Several(ID, MAX_BATCH, list), "those of `Forward`")


@dataclass(frozen=True)
class PeerPlan:
    """The schedule that a gateway runs, for one that runs an older one."""

    plan: FleetPlan = declared(InFrames("the second frame"), "as JSON, see `rosa_server/plan/fleet_plan.py`")


@dataclass(frozen=True)
class PeerOrder:
    """What a person has ordered at one gateway, and another one has to carry out."""

    number: int = declared(ID, "of the order at this gateway, for the answer")
    what: str = declared(NAME, "what to do")
    target: str = declared(NAME, "a server of the schedule, a worker, a model or a robot")
    value: str = declared(WORDS, "how much, or which; may be empty")
    by: str = declared(NAME, "who")


@dataclass(frozen=True)
class PeerOrderTold:
    """A step of an order of another gateway, or its end."""

    number: int = declared(ID, "that of `PeerOrder`")
    ended: bool = declared(FLAG, "it is at its end", False)
    cause: str = declared(SHORT_TEXT, "why it was not carried out; empty when it was", "")
    reason: str = declared(TEXT, "the same in words, or what was done", "")


ToPeer = Beat | Forward | Forwarded | ForwardCancel | PeerPlan
ToDesk = PeerOrder | PeerOrderTold  # what a gateway's core has nothing to do with
