"""The socket of those who watch, and what they may ask. It never waits: what a watcher does not read is lost to it.

A watcher says every second that it is there. It is on this machine and belongs to this user, as nobody else can enter
the folder of the socket; still, what it sends is read as if anybody had sent it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import zmq

from rosa_contract.errors import CodecError, VersionError
from rosa_contract.wire.packing import pack
from rosa_contract.wire.watching import MAX_ASK_BYTES, Asked, Look, Order, decode_ask
from rosa_server.serving.watching.hub import ABOUT, VERSION

SAYS_EVERY_S = 1.0
SILENT_AFTER_S = 4.0
MAX_WATCHERS = 8
MAX_UNREAD = 256  # messages of a watcher; beyond it they are lost to it
MAX_READ = 16  # messages in one step
NOBLOCK, POLLIN = int(zmq.NOBLOCK), int(zmq.POLLIN)


class Watchers:
    """Who watches one gateway."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        """Listens at once. Raises `zmq.ZMQError`."""
        self._heard_s: dict[bytes, float] = {}
        self.dropped = 0  # messages that a watcher did not read in time
        self.came = 0  # watchers that were not here before
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
                one = decode_ask(watcher, frames[1]) if len(frames) == 2 else None
            except VersionError:  # of another release: the version of this one is what it understands
                self.answer(watcher, [ABOUT, pack({"v": VERSION})])
                continue
            except CodecError:
                continue
            self.came += watcher not in self._heard_s
            self._heard_s[watcher] = now_s
            if isinstance(one, Asked | Order | Look):
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
