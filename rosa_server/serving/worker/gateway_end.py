"""A worker's end of the link to its gateway: a ZeroMQ socket and, on the same machine, memory shared with it.

One thread at a time uses it. A wait is one system call, as the gateway's is (`readiness.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import zmq

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.serving.base.readiness import Readiness, Source
from rosa_server.serving.base.shared_memory import ShmReader
from rosa_server.serving.base.watched_link import WatchedLink

Message = m.Execute | m.CancelTickets | m.Drain


class GatewayEnd:
    """Of a worker whose socket is connected, or about to be."""

    def __init__(
        self, socket: zmq.Socket[bytes], shm_fds: Sequence[int] = (), link: WatchedLink | None = None
    ) -> None:
        """`link`: of a worker on another machine, which announces itself on each connection."""
        self.link = link
        self._socket = socket
        self._shm = ShmReader(*shm_fds) if shm_fds else None
        self._readiness = Readiness()
        self._socket_fd = self._readiness.register(socket, asked_always=False)
        self.sources: list[Source] = [socket]  # of messages
        if self._shm is not None:
            self.sources.append(self._readiness.register(self._shm.socket.fileno()))
        if link is not None:
            self._readiness.register(link.monitor)

    def watch(self, fd: int) -> None:
        """Have `wait` return for this descriptor, too."""
        self._readiness.register(fd)

    def unwatch(self, fd: int) -> None:
        self._readiness.unregister(fd)

    def wait(self, timeout_ms: int) -> list[Source]:
        """What is readable, after at most `timeout_ms`; also what holds no messages."""
        return self._readiness.wait(timeout_ms)

    def given_back(self) -> None:
        """Another thread has used it in between."""
        self._readiness.used(self._socket_fd)

    def read(self, come: Sequence[Source]) -> Message | None:
        """A message of what is readable; None where that holds none. Raises `CodecError`."""
        frames: Sequence[Any] | None = None
        if come[0] is self._socket:
            frames = self._socket.recv_multipart(copy=False)
        elif self._shm is not None and come[0] == self._shm.socket.fileno():
            try:
                frames = self._shm.receive()
            except EOFError:
                return m.Drain()  # the gateway has ended
        if frames is None:
            return None
        message = codec.decode(frames)
        if not isinstance(message, Message):
            raise CodecError("unexpected_message", f"a gateway does not send {type(message).__name__}")
        return message

    def answer(self, frames: Sequence[codec.Frame]) -> None:
        """Through the memory where there is such and they fit."""
        if self._shm is None or not self._shm.send(frames):
            self.send(frames)

    def send(self, frames: Sequence[codec.Frame]) -> None:
        """Over the socket."""
        self._readiness.used(self._socket_fd)
        self._socket.send_multipart(frames)
