"""Every message between robot, gateway and worker. `codec.py` turns them into ZeroMQ frames and back.

Robot -> gateway:   Hello, Ready, Request, Cancel, TaskEnds, Status, Decided, Bye, HealthQuery
Gateway -> robot:   Welcome, Refused, Permit, Response, Decide, HealthReport
Worker -> gateway:  WorkerReady, Executed
Gateway -> worker:  Execute, CancelTickets, Drain
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from rosa_contract.errors import CODEC_CAUSES
from rosa_contract.wire.horizon import Horizon
from rosa_contract.wire.images import EncodedImage
from rosa_contract.wire.overlap import Overlap
from rosa_contract.wire.progress import Progress
from rosa_contract.wire.status import Decide as Decide
from rosa_contract.wire.status import Decided as Decided
from rosa_contract.wire.status import Status as Status

SCHEMA_VERSION = 3

# How a request ends. Every accepted request gets exactly one of these.
OK = "ok"
EXPIRED = "expired"  # its budget was spent before a worker took it
REPLACED = "replaced"  # a fresher observation of the same robot and component took its place in the queue
OVERLOADED = "overloaded"  # the queue of its replica is full
UNAVAILABLE = "unavailable"  # no worker for its model, and none came within the budget
INVALID = "invalid"  # the request does not fit what the model takes
FAILED = "failed"  # the model raised an error, or its output cannot be used
CANCELLED = "cancelled"  # its robot waits for it no more; only a robot that sends `Cancel` gets this
STATUSES = (OK, EXPIRED, REPLACED, OVERLOADED, UNAVAILABLE, INVALID, FAILED, CANCELLED)

# Why a request did not end with "ok", and the status that each cause belongs to.
CAUSES = {
    "budget_spent": EXPIRED,
    "fresher_request": REPLACED,
    "queue_full": OVERLOADED,
    "no_worker": UNAVAILABLE,  # the replica that it is routed to had no warm worker within its budget
    "robot_left": UNAVAILABLE,  # said bye, said hello again, or fell silent
    "shutting_down": UNAVAILABLE,
    "unknown_component": INVALID,  # the task has no such component
    "camera_missing": INVALID,
    "unexpected_image": INVALID,  # of a camera that the model does not take, or a second one of the same camera
    "wrong_image_shape": INVALID,
    "state_missing": INVALID,
    "wrong_state_shape": INVALID,
    "input_rejected": INVALID,  # the model's own check of its input failed
    **dict.fromkeys(CODEC_CAUSES, INVALID),
    "model_error": FAILED,
    "bad_output": FAILED,  # not finite, or not to be encoded
    "workers_lost": FAILED,  # every worker that took it died
    "cancelled": CANCELLED,
}

# Why a robot, or a message of it, is refused.
REFUSALS = {
    "unknown_task": "the server has no such task",
    "camera_missing": "a model of the task needs a camera that the robot does not have",
    "wrong_image_shape": "a model of the task needs images of another size",
    "state_missing": "a model of the task needs a state that the robot does not have",
    "wrong_state_shape": "a model of the task needs a state with another number of values",
    "not_ready": "models are still loading, or the server is shutting down: say hello again",
    "hello_required": "the gateway does not know this connection, for instance after a restart: say hello again",
    "robot_id_taken": "another connection speaks under this name",
    "wrong_key": "the key of this connection belongs to another robot",
    "not_admitted": "every planned slot of the task is taken, and no server has room for one more robot",
    "not_planned": "the task is not in robot_fleet, so the schedule has nothing for it",
    "admission_off": "every planned slot of the task is taken, and this server admits planned robots only",
    **CODEC_CAUSES,
}


def fits(status: str, cause: str) -> bool:
    """Whether a response may have this status and this cause: none with "ok", one of `CAUSES` with any other."""
    return cause == "" if status == OK else CAUSES.get(cause) == status


Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class CameraInfo:
    """What a robot says about one camera when it says hello. Named arguments only: height and width look alike."""

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
    request with others is invalid. `token`: what to say hello with the next time. `catch_up`: how many periods of its
    rate a robot that is late may make up for. `starts_ms`: component -> its first call is not sent before so much
    later, and a periodic one keeps that phase; a component without an entry may be called at once. `permits`:
    components that may be called faster than `rates_hz` with a permit. `cancels`: the gateway understands `Cancel`.
    `tasks`: it understands `Request.progress` and `TaskEnds`. `status_hz`: how often the robot may say how it is
    (`Status`), and the gateway hands on what a person decides (`Decide`); 0: it does not want to know.
    """

    models: Mapping[str, str]
    rates_hz: Mapping[str, float] = field(default_factory=dict)
    cameras: Mapping[str, Sequence[str]] = field(default_factory=dict)
    token: str = ""
    catch_up: float = 0.0
    starts_ms: Mapping[str, float] = field(default_factory=dict)
    permits: Sequence[str] = ()
    cancels: bool = False
    tasks: bool = False
    status_hz: float = 0.0


@dataclass(frozen=True)
class Refused:
    """The last message was not accepted. `cause` is one of `REFUSALS`; `reason` says what to do."""

    cause: str
    reason: str

    def __post_init__(self) -> None:
        if self.cause not in REFUSALS:
            raise ValueError(f"cause: expected one of {', '.join(REFUSALS)}, got {self.cause!r}")


@dataclass(frozen=True)
class Bye:
    """The robot leaves; its waiting requests are dropped."""


@dataclass(frozen=True)
class Ready:
    """The robot would call this component now, were it not for its rate: it asks for a permit."""

    component: str


@dataclass(frozen=True)
class Permit:
    """The answer to `Ready`: the robot may call the component once, now."""

    component: str


@dataclass(frozen=True)
class Request:
    """One component call with one observation. `budget_ms` is what remains of the deadline when it leaves the robot.

    `horizon`: how the server chooses how many steps of the chunk are played; None: it does not. `observation`: calls of
    one robot with the same number are about the very same pictures and state, so that a server may look at them once;
    None: nothing is said, and nothing is shared.
    `overlap`: what the robot plays meanwhile; None: it stands. `progress`: where it is in its task; None: nothing is
    said. Sent only where the robot's welcome said `tasks`.
    """

    request_id: int
    component: str
    budget_ms: float
    prompt: str = ""
    state: Mapping[str, Array] = field(default_factory=dict)
    images: Mapping[str, EncodedImage] = field(default_factory=dict)
    horizon: Horizon | None = None
    observation: int | None = None
    overlap: Overlap | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class Cancel:
    """The robot waits for this request no more. It is still answered, unless it has been: `cancelled`.

    Optional: a request that nobody cancels ends by its deadline. Sent only where the robot's welcome said `cancels`.
    """

    request_id: int


@dataclass(frozen=True)
class TaskEnds:
    """A task of the robot is over; the first request with its number began it.

    Optional, as `Cancel` is: a request with another number ends the task before it as well, and nothing is learned
    from its length. Sent only where the robot's welcome said `tasks`.
    """

    task: int
    outcome: str  # one of `progress.OUTCOMES`


@dataclass(frozen=True)
class Output:
    """What a model answers: arrays (System 1: `actions` float32 (horizon, dof + 1)), a verdict, or text (System 2).

    `horizon`: steps of the chunk that the robot plays, and `horizon_reason`: why; 0 where the request asked for none.
    """

    arrays: Mapping[str, Array] = field(default_factory=dict)
    verdict: str = ""
    text: str = ""
    horizon: int = 0
    horizon_reason: str = ""


@dataclass(frozen=True)
class Response:
    """The one final answer to a request. Times are the server's own, in ms.

    `pace`: for the next seconds the robot may call so many times its rate; 0: nothing is said.
    """

    request_id: int
    status: str  # one of STATUSES
    cause: str = ""  # one of CAUSES that belongs to the status; empty with status ok
    reason: str = ""
    queue_ms: float = 0.0
    inference_ms: float = 0.0
    batch_size: int = 0
    output: Output | None = None  # with status ok only
    pace: float = 0.0


@dataclass(frozen=True)
class HealthQuery:
    """Asks for the state of the server; needs no hello."""


@dataclass(frozen=True)
class HealthReport:
    """`ready`: every model has a warm worker. `workers`: worker id -> state. `queues`: replica -> waiting requests.

    `robots`: names of the first of them by name. `connected`: how many there are.
    """

    ready: bool
    workers: Mapping[str, str]
    queues: Mapping[str, int]
    robots: Sequence[str]
    connected: int = 0


@dataclass(frozen=True)
class WorkerReady:
    """A worker has loaded and warmed up its model. `images`: camera -> (height, width); `state`: name -> length.

    `at_once`: calls that it runs at a time, each answered by itself, where the model batches continuously; 1: none.
    `shares`: calls about one observation cost it less than calls about several. `resizes`: cameras of which `images`
    is the largest size only. `unused`: what a robot may have besides; None: anything.
    """

    worker_id: str
    model: str
    max_batch: int
    images: Mapping[str, tuple[int, int]]
    state: Mapping[str, int]
    at_once: int = 1
    shares: bool = False
    resizes: Sequence[str] = ()
    unused: Sequence[str] | None = None


@dataclass(frozen=True)
class Sender:
    """Whose request it is, how much of its deadline is left, and how long it has waited at the server.

    `observation`: a name for what it is about, which no other robot's requests can have; empty: it has none.
    """

    robot_id: str
    budget_ms: float
    waited_ms: float
    observation: str = ""


@dataclass(frozen=True)
class Execute:
    """Run this batch. `frames[i]` are the request frames of `tickets[i]`, exactly as the robot sent them.

    `senders[i]`: whose it is; empty where nothing is said of any.
    """

    batch_id: int
    tickets: Sequence[int]
    frames: Sequence[Sequence[Any]]
    senders: Sequence[Sender] = ()


@dataclass(frozen=True)
class Executed:
    """A batch is done. `outputs[i]` for `tickets[i]`: an encoded `Output`, or empty where `errors[i]` says why.

    `counts`: what the worker's engine has done since it started, by name; empty where it counts nothing.
    """

    batch_id: int
    tickets: Sequence[int]
    inference_ms: float
    errors: Sequence[tuple[str, str]]  # (one of CAUSES, reason); ("", "") where the request succeeded
    outputs: Sequence[Any]
    counts: Mapping[str, int] = field(default_factory=dict)
    decode_ms: Sequence[
        float
    ] = ()  # CPU time that the pictures of `tickets[i]` took; empty where nothing is said


@dataclass(frozen=True)
class CancelTickets:
    """Nobody waits for these any more. The worker answers each as it would otherwise, as soon as it can.

    Only for a worker that runs several calls at a time (`at_once`): any other reads nothing while it runs.
    """

    tickets: Sequence[int]


@dataclass(frozen=True)
class Drain:
    """Finish what you have and exit."""


FromRobot = Hello | Ready | Request | Cancel | TaskEnds | Status | Decided | Bye | HealthQuery
ToRobot = Welcome | Refused | Permit | Response | Decide | HealthReport
Message = FromRobot | ToRobot | WorkerReady | Execute | Executed | CancelTickets | Drain
