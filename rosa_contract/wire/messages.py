"""Every message between robot, gateway and worker: its one definition.

Each field is declared with its rule and its meaning: readers, writers, limits and their documentation are made of that.
`codec.py` turns messages into ZeroMQ frames and back.

Robot -> gateway:   Hello, Ready, Request, Cancel, TaskEnds, Status, Decided, Bye, HealthQuery
Gateway -> robot:   Welcome, Refused, Permit, Response, Decide, HealthReport
Worker -> gateway:  WorkerReady, Executed                     (`work.py`)
Gateway -> worker:  Execute, CancelTickets, Drain
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rosa_contract.wire.bounds import (
    MAX_ARRAYS,
    MAX_BATCH,
    MAX_BUDGET_MS,
    MAX_CATCH_UP,
    MAX_DURATION_MS,
    MAX_GATEWAYS,
    MAX_IMAGES,
    MAX_LENGTH,
    MAX_PACE,
    MAX_RATE_HZ,
    MAX_ROBOTS,
    MAX_SPACES,
    MAX_START_MS,
)
from rosa_contract.wire.causes import CANCELLED as CANCELLED
from rosa_contract.wire.causes import CAUSES as CAUSES
from rosa_contract.wire.causes import EXPIRED as EXPIRED
from rosa_contract.wire.causes import FAILED as FAILED
from rosa_contract.wire.causes import INVALID as INVALID
from rosa_contract.wire.causes import OK as OK
from rosa_contract.wire.causes import OVERLOADED as OVERLOADED
from rosa_contract.wire.causes import REFUSALS as REFUSALS
from rosa_contract.wire.causes import REPLACED as REPLACED
from rosa_contract.wire.causes import STATUSES as STATUSES
from rosa_contract.wire.causes import UNAVAILABLE as UNAVAILABLE
from rosa_contract.wire.causes import fits as fits
from rosa_contract.wire.containers import ARRAYS, Map, Several
from rosa_contract.wire.horizon import MAX_REASON_CHARS, MAX_STEPS, Horizon, contradiction
from rosa_contract.wire.images import ENCODINGS, EncodedImage
from rosa_contract.wire.overlap import Overlap, overlap_problem
from rosa_contract.wire.packing import Array as Array
from rosa_contract.wire.progress import OUTCOMES, Progress
from rosa_contract.wire.rules import (
    ANY_TEXT,
    FLAG,
    ID,
    NAME,
    SHORT_TEXT,
    SIDE,
    TEXT,
    Choice,
    InFrames,
    Number,
    Text,
    Whole,
    declared,
)
from rosa_contract.wire.schema import Object
from rosa_contract.wire.status import MAX_STATUS_HZ
from rosa_contract.wire.status import Decide as Decide
from rosa_contract.wire.status import Decided as Decided
from rosa_contract.wire.status import Status as Status
from rosa_contract.wire.work import CancelTickets as CancelTickets
from rosa_contract.wire.work import Drain as Drain
from rosa_contract.wire.work import Execute as Execute
from rosa_contract.wire.work import Executed as Executed
from rosa_contract.wire.work import Sender as Sender
from rosa_contract.wire.work import WorkerReady as WorkerReady

SCHEMA_VERSION = 4
DURATION = Number(0.0, MAX_DURATION_MS)


@dataclass(frozen=True, kw_only=True)
class CameraInfo:
    """What a robot says about one camera when it says hello. Named arguments only: height and width look alike."""

    height: int = declared(SIDE, "px")
    width: int = declared(SIDE, "px")
    encoding: str = declared(Choice(ENCODINGS), "how its pictures travel")


@dataclass(frozen=True)
class Hello:
    """A robot introduces itself; repeated every second without traffic, so it is also the sign of life."""

    robot_id: str = declared(NAME, "what the robot is called")
    task: str = declared(NAME, "what it does, a task of the server's factory file")
    cameras: Mapping[str, CameraInfo] = declared(Map(Object(CameraInfo), MAX_IMAGES), "its cameras", dict)
    state: Mapping[str, int] = declared(
        Map(Whole(1, MAX_LENGTH), MAX_ARRAYS), "its states: number of values", dict
    )
    token: str = declared(
        SHORT_TEXT, "from the last welcome, so that nobody else resumes under its name; empty at first", ""
    )
    actions: Sequence[str] = declared(
        Several(NAME, MAX_SPACES),
        "the spaces besides joint positions in which it takes actions (`config/spaces.py`)",
        (),
    )


@dataclass(frozen=True)
class Welcome:
    """The robot may send requests for these components; sent again when the rates change."""

    models: Mapping[str, str] = declared(Map(ANY_TEXT, MAX_BATCH), "component -> model", dict)
    rates_hz: Mapping[str, float] = declared(
        Map(Number(0.0, MAX_RATE_HZ), MAX_BATCH),
        "component -> calls per second that the robot must not exceed, from the schedule; without an entry: no limit",
        dict,
    )
    cameras: Mapping[str, Sequence[str]] = declared(
        Map(Several(ANY_TEXT, MAX_IMAGES), MAX_BATCH),
        "component -> the cameras that its model takes; a request with others is invalid",
        dict,
    )
    token: str = declared(SHORT_TEXT, "what to say hello with the next time", "")
    catch_up: float = declared(
        Number(0.0, MAX_CATCH_UP), "how many periods of its rate a robot that is late may make up for", 0.0
    )
    starts_ms: Mapping[str, float] = declared(
        Map(Number(0.0, MAX_START_MS), MAX_BATCH),
        "component -> its first call is not sent before this time has passed, and a periodic one keeps that phase;"
        " without an entry: at once",
        dict,
    )
    permits: Sequence[str] = declared(
        Several(ANY_TEXT, MAX_BATCH), "components that may be called faster than `rates_hz` with a permit", ()
    )
    cancels: bool = declared(FLAG, "the gateway understands `Cancel`", False)
    tasks: bool = declared(FLAG, "it understands `Request.progress` and `TaskEnds`", False)
    status_hz: float = declared(
        Number(0.0, MAX_STATUS_HZ),
        "how often the robot may say how it is (`Status`), and the gateway hands on what a person decides (`Decide`);"
        " 0: it does not want to know",
        0.0,
    )
    gateways: Sequence[str] = declared(
        Several(ANY_TEXT, MAX_GATEWAYS),
        "endpoints of all gateways of this schedule, this one first: with any of them the robot keeps its task and its"
        " slot; empty: there is no other one",
        (),
    )


@dataclass(frozen=True)
class Refused:
    """The last message was not accepted."""

    cause: str = declared(Choice(REFUSALS), "why")
    reason: str = declared(TEXT, "the same in words, and what to do", "")
    gateways: Sequence[str] = declared(
        Several(ANY_TEXT, MAX_GATEWAYS),
        "endpoints of this gateway and of those of its schedule that may have a slot for the robot, or serve it with"
        " the one that it has; empty: none has",
        (),
    )

    def __post_init__(self) -> None:
        if self.cause not in REFUSALS:
            raise ValueError(f"cause: expected one of {', '.join(REFUSALS)}, got {self.cause!r}")


@dataclass(frozen=True)
class Bye:
    """The robot leaves; its waiting requests are dropped."""


@dataclass(frozen=True)
class Ready:
    """The robot would call this component now, were it not for its rate: it asks for a permit."""

    component: str = declared(NAME, "which one")


@dataclass(frozen=True)
class Permit:
    """The answer to `Ready`: the robot may call the component once, now."""

    component: str = declared(NAME, "which one")


@dataclass(frozen=True)
class ImageHead:
    """What a request's header says of one picture; the picture is the frame in the same place."""

    camera: str = declared(SHORT_TEXT, "which one; each once")
    encoding: str = declared(Choice(ENCODINGS), "of the frame")
    height: int = declared(SIDE, "px")
    width: int = declared(SIDE, "px")
    checksum: int = declared(Whole(0, 0xFFFFFFFF), "CRC-32 of a compressed picture; 0 of a raw one")


@dataclass(frozen=True)
class Request:
    """One component call with one observation."""

    request_id: int = declared(ID, "the robot's own number of the call; its answer has the same")
    component: str = declared(NAME, "which component of its task")
    budget_ms: float = declared(
        Number(0.0, MAX_BUDGET_MS),
        "what remains of the deadline when the request leaves the robot, without what the way takes at least",
    )
    prompt: str = declared(TEXT, "text for the model", "")
    state: Mapping[str, Array] = declared(ARRAYS, "the robot's state", dict)
    images: Mapping[str, EncodedImage] = declared(
        InFrames(
            "list of {camera, encoding, height, width, checksum} in the header; each picture is a separate frame"
        ),
        f"the pictures of up to {MAX_IMAGES} cameras; the checksum is the CRC-32 of a compressed one, 0 of a raw one",
        dict,
    )
    horizon: Horizon | None = declared(
        Object(Horizon, contradiction),
        "how the server chooses how many steps of the chunk are played; without it: it does not",
        None,
    )
    observation: int | None = declared(
        ID,
        "calls of one robot with the same number are about the very same pictures and state, so that a server may look"
        " at them once; without it: nothing is shared",
        None,
    )
    overlap: Overlap | None = declared(
        Object(Overlap, overlap_problem), "what the robot plays meanwhile; without it: it stands", None
    )
    progress: Progress | None = declared(
        Object(Progress, strict=True),
        "where it is in its task. Sent only where the robot's welcome said `tasks`",
        None,
    )


@dataclass(frozen=True)
class Cancel:
    """The robot waits for this request no more. It is still answered, unless it has been: `cancelled`.

    Optional: a request that nobody cancels ends by its deadline. Sent only where the robot's welcome said `cancels`.
    """

    request_id: int = declared(ID, "which one")


@dataclass(frozen=True)
class TaskEnds:
    """A task of the robot is over; the first request with its number began it.

    Optional, as `Cancel` is: a request with another number ends the task before it as well, and nothing is learned
    from its length. Sent only where the robot's welcome said `tasks`.
    """

    task: int = declared(ID, "its number")
    outcome: str = declared(Choice(OUTCOMES), "how it ended")


@dataclass(frozen=True)
class Output:
    """What a model answers: arrays, a verdict, or text. It is a separate map in a separate frame."""

    arrays: Mapping[str, Array] = declared(
        ARRAYS,
        "System 1: `actions` float32 (horizon, joints + grippers), or an array named as another space of the hello",
        dict,
    )
    verdict: str = declared(SHORT_TEXT, "safety and monitor: what they see", "")
    text: str = declared(TEXT, "System 2: its plan", "")
    horizon: int = declared(
        Whole(0, MAX_STEPS), "steps of the chunk that the robot plays; 0: the request asked for none", 0
    )
    horizon_reason: str = declared(Text(MAX_REASON_CHARS), "why as many", "")


@dataclass(frozen=True)
class Response:
    """The one final answer to a request. Times are the server's own."""

    request_id: int = declared(ID, "the request's number")
    status: str = declared(Choice(STATUSES), "how it ended")
    cause: str = declared(
        Choice(CAUSES, empty=True), "why; one that belongs to the status, empty with status `ok`", ""
    )
    reason: str = declared(TEXT, "the same in words", "")
    queue_ms: float = declared(DURATION, "how long it waited", 0.0, always=True)
    inference_ms: float = declared(DURATION, "how long the model took", 0.0, always=True)
    batch_size: int = declared(Whole(0, MAX_BATCH), "how many requests ran together", 0, always=True)
    output: Output | None = declared(InFrames("the second frame"), "with status `ok` only", None)
    pace: float = declared(
        Number(0.0, MAX_PACE),
        "for the next seconds the robot may call at this multiple of its rate; 0: nothing is said",
        0.0,
    )


@dataclass(frozen=True)
class HealthQuery:
    """Asks for the state of the server; needs no hello."""


@dataclass(frozen=True)
class HealthReport:
    """How the server is."""

    ready: bool = declared(FLAG, "every model has a warm worker")
    workers: Mapping[str, str] = declared(Map(ANY_TEXT, MAX_BATCH), "worker -> its state", dict)
    queues: Mapping[str, int] = declared(Map(ID, MAX_BATCH), "replica -> waiting requests", dict)
    robots: Sequence[str] = declared(
        Several(ANY_TEXT, MAX_ROBOTS, list), "names of the first robots by name", list, always=True
    )
    connected: int = declared(ID, "how many robots there are", 0, always=True)


FromRobot = Hello | Ready | Request | Cancel | TaskEnds | Status | Decided | Bye | HealthQuery
ToRobot = Welcome | Refused | Permit | Response | Decide | HealthReport
Message = FromRobot | ToRobot | WorkerReady | Execute | Executed | CancelTickets | Drain
