"""Every message between robot, gateway and worker, on one page. `codec.py` turns them into ZeroMQ frames and back.

Robot -> gateway:   Hello, Request, Bye, HealthQuery
Gateway -> robot:   Welcome, Refused, Response, HealthReport
Worker -> gateway:  WorkerReady, Executed
Gateway -> worker:  Execute, Drain
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from rosa_contract.images import EncodedImage

SCHEMA_VERSION = 1

# How a request ends. Every accepted request gets exactly one of these.
OK = "ok"
EXPIRED = "expired"  # its budget was spent before a worker took it
REPLACED = "replaced"  # a fresher observation of the same robot and component took its place in the queue
OVERLOADED = "overloaded"  # the queue of its model is full
UNAVAILABLE = "unavailable"  # no worker for its model, and none came within the budget
INVALID = "invalid"  # the request does not fit what the model takes
FAILED = "failed"  # the model raised an error, or its output cannot be used
STATUSES = (OK, EXPIRED, REPLACED, OVERLOADED, UNAVAILABLE, INVALID, FAILED)

# Why a robot is refused.
REFUSALS = (
    "version_mismatch",
    "unknown_task",
    "camera_missing",
    "wrong_image_shape",
    "state_missing",
    "not_ready",  # models are still loading: say hello again
    "hello_required",  # the gateway does not know this connection (it restarted): say hello again
    "robot_id_taken",
    "not_admitted",  # every planned slot of the task is taken, and no server has room for one more robot
    "not_planned",  # the task is not in robot_fleet, so the schedule has nothing for it
    "admission_off",  # every planned slot of the task is taken, and this server admits planned robots only
    "bad_message",
)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class CameraInfo:
    """What a robot says about one camera when it says hello."""

    height: int  # px
    width: int  # px
    encoding: str  # jpeg, png or rgb8


@dataclass(frozen=True)
class Hello:
    """A robot introduces itself; repeated every second without traffic, so it is also the sign of life.

    `token`: from the last welcome, so that nobody else resumes under its name; empty at first.
    """

    robot_id: str
    task: str
    cameras: Mapping[str, CameraInfo]
    state: Mapping[str, int]  # name -> number of values
    token: str = ""


@dataclass(frozen=True)
class Welcome:
    """The robot may send requests for these components; sent again when the rates change.

    `models`: component -> model. `rates_hz`: component -> calls per second that the robot must not exceed, from the
    schedule; a component without an entry has no limit. `cameras`: component -> the cameras that its model takes; a
    request with others is invalid. `token`: what to say hello with the next time.
    """

    models: Mapping[str, str]
    rates_hz: Mapping[str, float] = field(default_factory=dict)
    cameras: Mapping[str, Sequence[str]] = field(default_factory=dict)
    token: str = ""


@dataclass(frozen=True)
class Refused:
    """The last message was not accepted. `cause` is one of REFUSALS; `reason` says what to do."""

    cause: str
    reason: str


@dataclass(frozen=True)
class Bye:
    """The robot leaves; its waiting requests are dropped."""


@dataclass(frozen=True)
class Request:
    """One component call with one observation. `budget_ms` is what remains of the deadline when it leaves the robot."""

    request_id: int
    component: str
    budget_ms: float
    prompt: str = ""
    state: Mapping[str, Array] = field(default_factory=dict)
    images: Mapping[str, EncodedImage] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """What a model answers: arrays (System 1: `actions` float32 (horizon, dof + 1)), a verdict, or text (System 2)."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    verdict: str = ""
    text: str = ""


@dataclass(frozen=True)
class Response:
    """The one final answer to a request. Times are the server's own, in ms."""

    request_id: int
    status: str  # one of STATUSES
    reason: str = ""
    queue_ms: float = 0.0
    inference_ms: float = 0.0
    batch_size: int = 0
    output: Output | None = None  # with status ok only


@dataclass(frozen=True)
class HealthQuery:
    """Asks for the state of the server; needs no hello."""


@dataclass(frozen=True)
class HealthReport:
    """`ready`: every model has a warm worker. `workers`: worker id -> state. `queues`: model -> waiting requests."""

    ready: bool
    workers: Mapping[str, str]
    queues: Mapping[str, int]
    robots: Sequence[str]


@dataclass(frozen=True)
class WorkerReady:
    """A worker has loaded and warmed up its model. `images`: camera -> (height, width); `state`: name -> length."""

    worker_id: str
    model: str
    max_batch: int
    images: Mapping[str, tuple[int, int]]
    state: Mapping[str, int]


@dataclass(frozen=True)
class Execute:
    """Run this batch. `frames[i]` are the request frames of `tickets[i]`, exactly as the robot sent them."""

    batch_id: int
    tickets: Sequence[int]
    frames: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Executed:
    """A batch is done. `outputs[i]` for `tickets[i]`: an encoded `Output`, or empty where `errors[i]` says why."""

    batch_id: int
    tickets: Sequence[int]
    inference_ms: float
    errors: Sequence[tuple[str, str]]  # (status, reason); ("", "") where the request succeeded
    outputs: Sequence[Any]


@dataclass(frozen=True)
class Drain:
    """Finish what you have and exit."""


FromRobot = Hello | Request | Bye | HealthQuery
ToRobot = Welcome | Refused | Response | HealthReport
Message = FromRobot | ToRobot | WorkerReady | Execute | Executed | Drain
