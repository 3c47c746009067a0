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
    """One camera, as a robot describes it in its hello. Keyword arguments only, because height and width are easily
    swapped.
    """

    height: int = declared(SIDE, "px")
    width: int = declared(SIDE, "px")
    encoding: str = declared(Choice(ENCODINGS), "encoding of its pictures")


@dataclass(frozen=True)
class Hello:
    """A robot introduces itself. Repeated every second without other traffic, so it also serves as a heartbeat."""

    robot_id: str = declared(NAME, "robot name")
    task: str = declared(NAME, "its task, as named in the server's factory file")
    cameras: Mapping[str, CameraInfo] = declared(
        Map(Object(CameraInfo), MAX_IMAGES), "camera name -> description", dict
    )
    state: Mapping[str, int] = declared(
        Map(Whole(1, MAX_LENGTH), MAX_ARRAYS), "state name -> number of values", dict
    )
    token: str = declared(
        SHORT_TEXT,
        "token from the last welcome, so that no one else can resume under this name; empty at first",
        "",
    )
    actions: Sequence[str] = declared(
        Several(NAME, MAX_SPACES),
        "action spaces that it accepts besides joint positions (`config/spaces.py`)",
        (),
    )


@dataclass(frozen=True)
class Welcome:
    """The robot is accepted and may send requests for these components. Sent again when the rates change."""

    models: Mapping[str, str] = declared(Map(ANY_TEXT, MAX_BATCH), "component -> model", dict)
    rates_hz: Mapping[str, float] = declared(
        Map(Number(0.0, MAX_RATE_HZ), MAX_BATCH),
        "component -> maximum calls per second, from the schedule; no entry: no limit",
        dict,
    )
    cameras: Mapping[str, Sequence[str]] = declared(
        Map(Several(ANY_TEXT, MAX_IMAGES), MAX_BATCH),
        "component -> cameras that its model takes; a request with any other camera is invalid",
        dict,
    )
    token: str = declared(SHORT_TEXT, "token to send in the next hello", "")
    catch_up: float = declared(
        Number(0.0, MAX_CATCH_UP), "number of periods that a late robot may catch up", 0.0
    )
    starts_ms: Mapping[str, float] = declared(
        Map(Number(0.0, MAX_START_MS), MAX_BATCH),
        "component -> delay before its first call; periodic calls keep this phase; no entry: no delay",
        dict,
    )
    permits: Sequence[str] = declared(
        Several(ANY_TEXT, MAX_BATCH), "components that may exceed `rates_hz` with a permit", ()
    )
    cancels: bool = declared(FLAG, "the gateway supports `Cancel`", False)
    tasks: bool = declared(FLAG, "the gateway supports `Request.progress` and `TaskEnds`", False)
    status_hz: float = declared(
        Number(0.0, MAX_STATUS_HZ),
        "maximum rate of `Status` reports; the gateway then also forwards operator decisions (`Decide`);"
        " 0: it wants no reports",
        0.0,
    )
    gateways: Sequence[str] = declared(
        Several(ANY_TEXT, MAX_GATEWAYS),
        "endpoints of all gateways that share the schedule, this one first; the robot keeps its task and"
        " slot at any of them; empty: this is the only one",
        (),
    )


@dataclass(frozen=True)
class Refused:
    """The last message was not accepted."""

    cause: str = declared(Choice(REFUSALS), "why the message was refused")
    reason: str = declared(TEXT, "explanation, and what to do", "")
    gateways: Sequence[str] = declared(
        Several(ANY_TEXT, MAX_GATEWAYS),
        "endpoints of this gateway and of others of its schedule that may have a slot for the robot, or serve it with"
        " the slot it has; empty: none has",
        (),
    )

    def __post_init__(self) -> None:
        if self.cause not in REFUSALS:
            raise ValueError(f"cause: expected one of {', '.join(REFUSALS)}, got {self.cause!r}")


@dataclass(frozen=True)
class Bye:
    """The robot leaves. Its waiting requests are dropped."""


@dataclass(frozen=True)
class Ready:
    """The robot wants to call this component sooner than its rate allows, and asks for a permit."""

    component: str = declared(NAME, "component name")


@dataclass(frozen=True)
class Permit:
    """Answer to `Ready`: the robot may call the component once, now."""

    component: str = declared(NAME, "component name")


@dataclass(frozen=True)
class ImageHead:
    """Header entry for one picture of a request; the picture itself is in the frame at the same position."""

    camera: str = declared(SHORT_TEXT, "camera name; at most one picture per camera")
    encoding: str = declared(Choice(ENCODINGS), "encoding of the frame")
    height: int = declared(SIDE, "px")
    width: int = declared(SIDE, "px")
    checksum: int = declared(Whole(0, 0xFFFFFFFF), "CRC-32 of a compressed picture; 0 for a raw one")


@dataclass(frozen=True)
class Request:
    """A call of one component with one observation."""

    request_id: int = declared(ID, "call number chosen by the robot and repeated in the response")
    component: str = declared(NAME, "component of the robot's task")
    budget_ms: float = declared(
        Number(0.0, MAX_BUDGET_MS),
        "time left until the deadline when the request leaves the robot, minus the minimum network time",
    )
    prompt: str = declared(TEXT, "prompt for the model", "")
    state: Mapping[str, Array] = declared(ARRAYS, "state values", dict)
    images: Mapping[str, EncodedImage] = declared(
        InFrames(
            "list of {camera, encoding, height, width, checksum} in the header; each picture is a separate frame"
        ),
        f"pictures of up to {MAX_IMAGES} cameras; the checksum is the CRC-32 of a compressed picture, 0 for a raw one",
        dict,
    )
    horizon: Horizon | None = declared(
        Object(Horizon, contradiction),
        "policy by which the server chooses how many steps of the chunk to play; none: the server does"
        " not choose",
        None,
    )
    observation: int | None = declared(
        ID,
        "calls of one robot with the same number have identical pictures and state, so the server may"
        " encode them once; none: nothing is shared",
        None,
    )
    overlap: Overlap | None = declared(
        Object(Overlap, overlap_problem), "what the robot plays meanwhile; none: it stands still", None
    )
    progress: Progress | None = declared(
        Object(Progress, strict=True),
        "progress in its task; sent only if the welcome had `tasks`",
        None,
    )


@dataclass(frozen=True)
class Cancel:
    """The robot no longer waits for this request. If it has not been answered yet, it is answered with `cancelled`.

    Optional: a request that is never cancelled ends by its deadline. Sent only if the welcome had `cancels`.
    """

    request_id: int = declared(ID, "number of the request to cancel")


@dataclass(frozen=True)
class TaskEnds:
    """A task of the robot has ended. It began with the first request that carried its number.

    Optional, like `Cancel`: a request with another number also ends the previous task, but then the server does not
    learn from its length. Sent only if the welcome had `tasks`.
    """

    task: int = declared(ID, "number of the task")
    outcome: str = declared(Choice(OUTCOMES), "how the task ended")


@dataclass(frozen=True)
class Output:
    """A model's answer: arrays, a verdict or text. Sent as a separate map in its own frame."""

    arrays: Mapping[str, Array] = declared(
        ARRAYS,
        "System 1: `actions`, float32 (horizon, joints + grippers), or an array named after another space"
        " from the hello",
        dict,
    )
    verdict: str = declared(SHORT_TEXT, "safety and monitor: their verdict", "")
    text: str = declared(TEXT, "System 2: the plan", "")
    horizon: int = declared(
        Whole(0, MAX_STEPS), "number of steps of the chunk to play; 0: the request had no horizon policy", 0
    )
    horizon_reason: str = declared(Text(MAX_REASON_CHARS), "why the horizon has this length", "")


@dataclass(frozen=True)
class Response:
    """The one final answer to a request. Times are measured on the server."""

    request_id: int = declared(ID, "number of the request")
    status: str = declared(Choice(STATUSES), "how the request ended")
    cause: str = declared(
        Choice(CAUSES, empty=True), "why it ended so; belongs to the status; empty with status `ok`", ""
    )
    reason: str = declared(TEXT, "explanation of the cause", "")
    queue_ms: float = declared(DURATION, "time in the queue", 0.0, always=True)
    inference_ms: float = declared(DURATION, "time in the model", 0.0, always=True)
    batch_size: int = declared(Whole(0, MAX_BATCH), "number of requests in the batch", 0, always=True)
    output: Output | None = declared(
        InFrames("the second frame"), "the model's output; only with status `ok`", None
    )
    pace: float = declared(
        Number(0.0, MAX_PACE),
        "for the next few seconds, the robot may call at this multiple of its rate; 0: no change",
        0.0,
    )


@dataclass(frozen=True)
class HealthQuery:
    """Asks for the state of the server. Needs no hello."""


@dataclass(frozen=True)
class HealthReport:
    """The state of the server."""

    ready: bool = declared(FLAG, "every model has a warm worker")
    workers: Mapping[str, str] = declared(Map(ANY_TEXT, MAX_BATCH), "worker -> its state", dict)
    queues: Mapping[str, int] = declared(Map(ID, MAX_BATCH), "replica -> number of waiting requests", dict)
    robots: Sequence[str] = declared(
        Several(ANY_TEXT, MAX_ROBOTS, list),
        "names of connected robots in alphabetical order; a long list is cut",
        list,
        always=True,
    )
    connected: int = declared(ID, "number of connected robots", 0, always=True)


FromRobot = Hello | Ready | Request | Cancel | TaskEnds | Status | Decided | Bye | HealthQuery
ToRobot = Welcome | Refused | Permit | Response | Decide | HealthReport
Message = FromRobot | ToRobot | WorkerReady | Execute | Executed | CancelTickets | Drain
