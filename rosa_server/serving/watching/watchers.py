"""The socket of those who watch, and what they may ask. It never waits: what a watcher does not read is lost to it.

A watcher says every second that it is there. It is on this machine and belongs to this user, as nobody else can enter
the folder of the socket; still, what it sends is read as if anybody had sent it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import zmq

from rosa_contract.errors import CodecError
from rosa_contract.wire import fields
from rosa_contract.wire.packing import Frame, check_sum, pack, unpack
from rosa_contract.wire.status import MAX_WORDS

WATCH, DECIDE, ORDER, LOOK = "watch", "decide", "order", "look"
SAYS_EVERY_S = 1.0
SILENT_AFTER_S = 4.0
MAX_WATCHERS = 8
MAX_ASK_BYTES = 4096
MAX_UNREAD = 256  # messages of a watcher; beyond it they are lost to it
MAX_READ = 16  # messages in one step
NOBLOCK, POLLIN = int(zmq.NOBLOCK), int(zmq.POLLIN)


@dataclass(frozen=True)
class Asked:
    """A person's decision, as a watcher hands it in. `number`: the watcher's own, for the answer."""

    watcher: bytes
    number: int
    robot: str
    alert_id: int
    choice: str
    decided_by: str
    why: str


@dataclass(frozen=True)
class Order:
    """What a person wants of the server itself. `number`: the watcher's own, for the answer."""

    watcher: bytes
    number: int
    what: str
    target: str  # a server of the schedule, a worker or a model
    value: str
    by: str


@dataclass(frozen=True)
class Look:
    """A watcher wants to see what a robot's cameras show."""

    watcher: bytes
    robot: str


def look_message(robot: str) -> bytes:
    return pack({"t": LOOK, "r": robot})


def order_message(number: int, what: str, target: str, value: str, by: str) -> bytes:
    return pack({"t": ORDER, "i": number, "o": what, "r": target, "w": value, "b": by})


def watch_message() -> bytes:
    return pack({"t": WATCH})


def decide_message(number: int, robot: str, alert_id: int, choice: str, decided_by: str, why: str) -> bytes:
    told = {"t": DECIDE, "i": number, "r": robot, "a": alert_id, "c": choice, "b": decided_by, "w": why}
    return pack(told)


def asked_in(watcher: bytes, frame: Frame) -> Asked | Order | Look | None:
    """What a watcher has said; None: only that it is there. Raises `CodecError`."""
    header = unpack(frame, "watcher", MAX_ASK_BYTES, 64)
    check_sum(frame, header, "watcher")
    if header.get("t") == WATCH:
        return None
    if header.get("t") == LOOK:
        return Look(watcher, fields.name(header, "r"))
    number = fields.whole(header.get("i"), "watcher: number", 0, fields.MAX_ID)
    if header.get("t") == ORDER:
        what, target, by = (fields.name(header, key) for key in "orb")
        return Order(watcher, number, what, target, fields.text(header, "w", MAX_WORDS), by)
    if header.get("t") != DECIDE:
        raise CodecError("unexpected_message", "watcher: expected watch, look, decide or order")
    return Asked(
        watcher,
        number,
        fields.name(header, "r"),
        fields.whole(header.get("a"), "decide: alert_id", 0, fields.MAX_ID),
        fields.name(header, "c"),
        fields.name(header, "b"),
        fields.text(header, "w", MAX_WORDS),
    )


class Watchers:
    """Who watches one gateway."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        """Listens at once. Raises `zmq.ZMQError`."""
        self._heard_s: dict[bytes, float] = {}
        self.dropped = 0  # messages that a watcher did not read in time
        self.socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, MAX_UNREAD)
        self.socket.setsockopt(zmq.RCVHWM, MAX_READ)
        self.socket.setsockopt(zmq.MAXMSGSIZE, MAX_ASK_BYTES)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # say when a queue is full
        self._path: Path | None = None
        try:
            self.socket.bind(endpoint)
        except zmq.ZMQError:
            self.close()
            raise
        if endpoint.startswith("ipc://"):
            self._path = Path(endpoint.removeprefix("ipc://"))

    def __len__(self) -> int:
        return len(self._heard_s)

    def read(self, now_s: float) -> list[Asked | Order | Look]:
        """What was said; unreadable messages are dropped. Call it often: it also forgets who fell silent."""
        asked: list[Asked | Order | Look] = []
        for _ in range(MAX_READ):
            try:
                frames = self.socket.recv_multipart(NOBLOCK)
            except zmq.Again:
                break
            watcher = frames[0]
            if watcher not in self._heard_s and len(self._heard_s) >= MAX_WATCHERS:
                continue
            try:
                one = asked_in(watcher, frames[1]) if len(frames) == 2 else None
            except CodecError:
                continue
            self._heard_s[watcher] = now_s
            if one is not None:
                asked.append(one)
        for watcher in [one for one, at_s in self._heard_s.items() if now_s - at_s > SILENT_AFTER_S]:
            del self._heard_s[watcher]
        return asked

    def tell(self, message: Sequence[bytes]) -> None:
        """Send to everybody who watches."""
        for watcher in list(self._heard_s):
            self.answer(watcher, message)

    def answer(self, watcher: bytes, message: Sequence[bytes]) -> None:
        try:
            self.socket.send_multipart([watcher, *message], NOBLOCK)
        except zmq.Again:
            self.dropped += 1
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._heard_s.pop(watcher, None)

    def close(self) -> None:
        self.socket.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)  # libzmq leaves it
