"""Which robots are connected: the rules of hello, welcome and refuse; and whether a request fits what its model takes.

A robot's name is its own while its session lasts, and for `RESERVED_FOR_S` after its last word: until then only who
has the session's token, or the robot's key, gets it. A bye frees it at once. What a session allows is allowed to its
connection, and ends with it: its robot keeps its place for a while, and has to say hello on another connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.wire.bounds import MAX_NAME_CHARS
from rosa_contract.wire.codec import MAX_ROBOT_HEADER_BYTES
from rosa_contract.wire.messages import Hello, Refused, Request, Welcome
from rosa_contract.wire.progress import Progress
from rosa_contract.wire.schema import field_reader
from rosa_contract.wording import nearest
from rosa_server.plan.admission import Admitted
from rosa_server.serving.core.rates.control import RateMeter
from rosa_server.serving.core.sessions.fit import unfit
from rosa_server.serving.core.sessions.router import ModelNeeds, Router

TAKEN_FOR_S = 3.0  # a robot that was heard from within this time keeps its name
FORGET_AFTER_S = 10.0  # a robot says something every second; one that was silent for this long has left
RESERVED_FOR_S = 120.0  # after its last word
MAX_RESERVED = 10_000  # names of robots that have left; the earliest is free first

REQUEST_ID, BUDGET_MS, OBSERVATION, PROGRESS = (
    field_reader(Request, name) for name in ("request_id", "budget_ms", "observation", "progress")
)
SPARE_BYTES = 4096  # beside the raw pixels: no encoding needs more than these and a tenth


@dataclass(slots=True)
class Session:
    """One welcomed robot."""

    connection: bytes
    robot_id: str
    task: str
    slot: str  # its slot in the schedule; empty without a schedule
    models: Mapping[str, str]  # component -> model
    routes: Mapping[str, str]  # component -> replica as placed, whether or not it has failed
    heard_s: float
    token: str  # a client that has it is this robot
    starts_s: Mapping[str, float]  # component -> when its first call is due
    meter: RateMeter = field(default_factory=RateMeter)
    gone: bool = False  # its connection has ended
    reports: bool = False  # it says how it is, and takes decisions
    number: int = 0  # no other session of this gateway has it
    # component -> its last request id and ticket
    newest: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Greeting:
    """What follows from a hello."""

    answer: Welcome | Refused
    session: Session | None = None  # the new session, if this hello began one
    left: list[Session] = field(default_factory=list)  # sessions that this hello has ended
    admitted: Admitted | None = None  # where a slot was added for this robot
    placement_changed: bool = False


class Sessions:
    """The welcomed robots, by connection."""

    def __init__(self, router: Router, new_token: Callable[[], str], status_hz: float = 0.0) -> None:
        """`new_token`: makes a text of at most 128 letters and digits that nobody can guess. `status_hz`: how often
        robots are to say how they are."""
        self._router, self._new_token, self._status_hz = router, new_token, status_hz
        self._reserved: dict[str, Session] = {}  # the last session of robots that left without a bye
        self._silent: dict[bytes, Session] = {}  # those of them whose connection has not ended
        self._by_connection: dict[bytes, Session] = {}
        self._begun = 0  # sessions
        self.gateways: Sequence[str] = ()  # of the schedule, this one first, where there are others
        self.removed: dict[
            str, str
        ] = {}  # robots that a person has taken out, and the words that they are refused with
        self._by_robot: dict[str, Session] = {}
        self._callers: Counter[str] = Counter()  # by replica as placed

    @property
    def robots(self) -> list[str]:
        return sorted(self._by_robot)

    def of_tasks(self, tasks: set[str]) -> list[Session]:
        return [session for session in self._by_robot.values() if session.task in tasks]

    def __iter__(self) -> Iterator[Session]:
        return iter(self._by_robot.values())

    def get(self, connection: bytes) -> Session | None:
        """The session of this connection, while both last."""
        return self._by_connection.get(connection)

    def of_robot(self, robot_id: str) -> Session | None:
        """The session of the robot of this name, whether or not its connection lasts."""
        return self._by_robot.get(robot_id)

    def callers(self, replica: str) -> int:
        """How many streams this replica runs now: (robot, component) pairs that may call it."""
        return sum(self._callers.get(planned, 0) for planned in self._router.failover.served_by(replica))

    def heard(self, connection: bytes, now_s: float) -> Session | None:
        """The session of this connection, or None when it has to say hello first."""
        session = self._by_connection.get(connection)
        if session is not None:
            session.heard_s = now_s
        return session

    def hello(self, connection: bytes, hello: Hello, now_s: float, proven: bool = False) -> Greeting:
        """Welcome a robot, or say why not. `proven`: the connection was let in with this robot's own key."""
        if hello.task not in self._router.tasks:
            tasks = self._router.tasks
            words = f"no task {hello.task!r}{nearest(hello.task, tasks)}; this server has {', '.join(tasks)}"
            return Greeting(Refused("unknown_task", words))
        if hello.robot_id in self.removed:
            return Greeting(Refused("removed", self.removed[hello.robot_id]))
        holder = self._by_robot.get(hello.robot_id)
        taken = self._taken(connection, hello, now_s, proven)
        if taken:
            return Greeting(Refused("robot_id_taken", taken))
        refusal = unfit(hello, self._router.models_of(hello.task), self._router.needs_of)
        if refusal is not None:
            return Greeting(refusal)
        known = self._by_connection.get(connection)
        if known is not None and (known.robot_id, known.task) == (hello.robot_id, hello.task):
            known.heard_s = now_s
            return Greeting(self.welcome(known, now_s))
        return self._begin(connection, hello, now_s, holder)

    def _taken(self, connection: bytes, hello: Hello, now_s: float, proven: bool) -> str:
        """Why this connection may not speak under this name, or an empty string."""
        last = self._by_robot.get(hello.robot_id) or self._reserved.get(hello.robot_id)
        if last is None or (last.connection == connection and not last.gone):
            return ""
        silent_s = now_s - last.heard_s
        if not last.gone and silent_s < TAKEN_FOR_S:
            return f"another connection speaks as {hello.robot_id!r}; give each robot its own name or stop the other"
        if proven or compare_digest(hello.token.encode(), last.token.encode()) or silent_s >= RESERVED_FOR_S:
            return ""
        left = f"{RESERVED_FOR_S - silent_s:.0f} s"
        return f"the name {hello.robot_id!r} is reserved for {left} more for the robot that had it and fell silent"

    def welcome(self, session: Session, now_s: float) -> Welcome:
        """What a robot is told: its models, their cameras, and the rates that it must not exceed."""
        needs = {component: self._router.needs_of(model) for component, model in session.models.items()}
        cameras = {component: tuple(one.images) for component, one in needs.items() if one is not None}
        permits = self._router.permits_of(session.routes)
        rates_hz = self._router.told_rates_of(session.task, session.routes, permits)
        catch_up = self._router.placement.catch_up
        starts_ms = {name: (at_s - now_s) * 1000 for name, at_s in session.starts_s.items() if at_s > now_s}
        rules = (rates_hz, cameras, session.token, catch_up, starts_ms, permits)
        others = self.gateways
        return Welcome(
            session.models, *rules, cancels=True, tasks=True, status_hz=self._status_hz, gateways=others
        )

    def gone(self, connection: bytes) -> None:
        """A connection has ended. Its robot may come back on another one at once."""
        for sessions in (self._by_connection, self._silent):
            session = sessions.pop(connection, None)
            if session is not None:
                session.gone = True

    def leave(self, session: Session, bye: bool = False) -> bool:
        """End a session. Returns whether that changed the placement. After a `bye` the robot's name is free."""
        if not session.gone:
            del self._by_connection[session.connection]
            if not bye:
                self._silent[session.connection] = session
        if not bye:
            self._reserved.pop(session.robot_id, None)
            self._reserved[session.robot_id] = session
            if len(self._reserved) > MAX_RESERVED:
                del self._reserved[next(iter(self._reserved))]
        del self._by_robot[session.robot_id]
        self._callers.subtract(session.routes.values())
        return self._router.release(session.slot, bye)

    def update_routes(self) -> bool:
        """The placement has changed: look up every robot's routes again. True when those of some robot changed."""
        moved = False
        for session in self._by_robot.values():
            routes = self._router.routes_of(session.task, session.slot)
            if routes is not session.routes and routes != session.routes:
                self._callers.subtract(session.routes.values())
                self._callers.update(routes.values())
                moved = True
            session.routes = routes
        return moved

    def silent(self, now_s: float) -> list[Session]:
        """The sessions that were not heard from for `FORGET_AFTER_S`. Names that are free again are forgotten."""
        while self._reserved:
            last = next(iter(self._reserved.values()))
            if now_s - last.heard_s < RESERVED_FOR_S:
                break
            del self._reserved[last.robot_id]
            self._silent.pop(last.connection, None)
        return [s for s in self._by_robot.values() if now_s - s.heard_s > FORGET_AFTER_S]

    def _begin(self, connection: bytes, hello: Hello, now_s: float, holder: Session | None) -> Greeting:
        """Give a robot a slot. Its old slot is released first, so that it can come back to a full schedule."""
        placement_changed = False
        before = self._by_connection.get(connection)
        left = [old for old in (before, None if holder is before else holder) if old is not None]
        for old in left:
            placement_changed |= self.leave(old)
        taken = self._router.take(hello.task, hello.robot_id, hello.token)
        if isinstance(taken, Refused):
            return Greeting(taken, None, left, None, placement_changed)
        models, routes = self._router.models_of(hello.task), self._router.routes_of(hello.task, taken.slot)
        self._reserved.pop(hello.robot_id, None)
        token = taken.token or self._new_token()
        starts_s = {name: now_s + p.wait_s(now_s) for name, p in self._router.phases_of(taken.slot).items()}
        session = Session(
            connection, hello.robot_id, hello.task, taken.slot, models, routes, now_s, token, starts_s
        )
        self._begun += 1
        session.number = self._begun
        self._by_connection[connection] = self._by_robot[hello.robot_id] = session
        self._callers.update(routes.values())
        placement_changed |= taken.admitted is not None
        answer = self.welcome(session, now_s)
        return Greeting(answer, session, left, taken.admitted, placement_changed)


def request_fields(header: Mapping[str, Any]) -> tuple[int, str, float]:
    """(request_id, component, budget_ms) of a request header. Raises `CodecError`: it cannot be answered."""
    component = header.get("component")
    if type(component) is not str or not 0 < len(component) <= MAX_NAME_CHARS:
        words = f"component: expected 1 to {MAX_NAME_CHARS} characters, got {component!r:.60}"
        raise CodecError("bad_field", words)
    return REQUEST_ID(header.get("request_id")), component, BUDGET_MS(header.get("budget_ms"))


def observation_of(header: Mapping[str, Any]) -> int | None:
    """What a request says it is about, or None. Raises `CodecError`."""
    observation: int | None = OBSERVATION(header["observation"]) if "observation" in header else None
    return observation


def progress_of(header: Mapping[str, Any]) -> Progress | None:
    """What a request says of its robot's task, or None. Raises `CodecError`."""
    progress: Progress | None = PROGRESS(header["progress"]) if "progress" in header else None
    return progress


def largest_image(size: tuple[int, int]) -> int:
    """Bytes that an image of (height, width) px may have, in whatever encoding."""
    raw = size[0] * size[1] * 3
    return raw + raw // 10 + SPARE_BYTES


def largest_request(needs: Iterable[ModelNeeds]) -> int:
    """Bytes that a request to any of these models may have."""
    images = (sum(largest_image(size) for size in one.images.values()) for one in needs)
    return MAX_ROBOT_HEADER_BYTES + max(images, default=0)


def misfit(
    header: Mapping[str, Any], frames: Sequence[Any], needs: ModelNeeds | None
) -> tuple[str, str] | None:
    """(cause, reason) of a request that does not fit the model, or None. The worker checks the bytes themselves."""
    images, state = header.get("images"), header.get("state", {})
    if type(images) is not list or len(frames) != 1 + len(images):
        count = len(images) if isinstance(images, list) else 0
        return "wrong_frame_count", f"the header lists {count} images, the message carries {len(frames) - 1}"
    if type(state) is not dict:
        return "bad_field", "state: expected a map of arrays"
    if needs is None:
        return None
    sizes = {}
    for entry, frame in zip(images, frames[1:], strict=True):
        camera = entry.get("camera") if type(entry) is dict else None
        if type(camera) is not str:
            return "bad_field", "image: expected a map of camera, encoding, height, width and checksum"
        size = needs.images.get(camera)
        if size is None or camera in sizes:
            words = (
                f"camera {camera!r:.60}: the model takes {', '.join(needs.images) or 'no image'}, each once"
            )
            return "unexpected_image", words
        sizes[camera] = got = (entry.get("height"), entry.get("width"))
        if camera in needs.resizes:
            if any(
                type(side) is not int or not 1 <= side <= limit for side, limit in zip(got, size, strict=True)
            ):
                words = f"camera {camera!r}: expected (height, width) up to {tuple(size)}, got {got!r:.60}"
                return "wrong_image_shape", words
        elif got != tuple(size):
            words = f"camera {camera!r}: expected (height, width) {tuple(size)}, got {got!r:.60}"
            return "wrong_image_shape", words
        if len(frame) > largest_image(size):
            words = f"camera {camera!r}: expected at most {largest_image(size)} bytes, got {len(frame)}"
            return "too_large", words
    for camera in needs.images:
        if camera not in sizes:
            return "camera_missing", f"camera {camera!r} is missing; got {', '.join(sizes) or 'none'}"
    for name, length in needs.state.items():
        entry = state.get(name)
        if type(entry) is not list or len(entry) != 3:
            return "state_missing", f"state {name!r} is missing; expected {length} values"
        if entry[1] != [length]:
            return "wrong_state_shape", f"state {name!r}: expected shape [{length}], got {entry[1]!r:.60}"
    return None
