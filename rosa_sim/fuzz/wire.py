"""A ZMTP 3 peer over a bare TCP socket: it can send what libzmq never would, such as a message without end.

ZMTP (ZeroMQ RFC 23): a greeting of 64 bytes each way, a READY command each way, then frames of flags, size and body.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
MORE, LONG, COMMAND = 1, 2, 4


def frame(body: bytes, flags: int = 0) -> bytes:
    """A frame on the wire."""
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return bytes((flags | LONG,)) + struct.pack(">Q", len(body)) + body


def message(frames: Sequence[bytes]) -> bytes:
    """A whole message on the wire."""
    return b"".join(frame(bytes(one), MORE) for one in frames[:-1]) + frame(bytes(frames[-1]))


def ready(name: bytes = b"", **more: bytes) -> bytes:
    """What a DEALER says after the greetings. `name`: its own for this connection. `more`: properties."""
    said = {"Socket-Type": b"DEALER", "Identity": name, **more}
    properties = b"".join(
        bytes((len(key),)) + key.encode() + struct.pack(">I", len(value)) + value
        for key, value in said.items()
    )
    return frame(b"\x05READY" + properties, COMMAND)


def idle_connections(host: str, port: int, count: int) -> list[socket.socket]:
    """`count` at once, none of which ever says anything. Those that the gateway has no room for wait in the kernel."""
    sockets = []
    for index in range(count):
        if index % 50 == 49:
            time.sleep(0.05)  # the listener's backlog is short, and what it drops comes again after seconds
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex((host, port))
        sockets.append(one)
    return sockets


class RawPeer:
    """One TCP connection. Raises `OSError` (`TimeoutError` included) when the gateway takes no more."""

    def __init__(
        self,
        endpoint: str,
        source: str = "",
        greet: bool = True,
        timeout_s: float = 10.0,
        receive_bytes: int = 0,
        name: bytes = b"",
    ) -> None:
        """`source`: address to connect from. `greet`: finish the handshake. `receive_bytes`: of the kernel's buffer.
        `name`: what it calls itself, as `ZMQ_IDENTITY` says it."""
        parts = urlsplit(endpoint)
        self.socket = socket.socket()
        try:
            self.socket.settimeout(timeout_s)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as libzmq does
            if receive_bytes:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            if source:
                self.socket.bind((source, 0))
            self.socket.connect((parts.hostname or "", parts.port or 0))
            if greet:
                self.socket.sendall(GREETING)
                self._exactly(64)
                self.socket.sendall(ready(name))
                self._body()
        except OSError:
            self.socket.close()
            raise

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> list[bytes]:
        """The next whole message. Raises `OSError`."""
        frames = []
        while True:
            flags, body = self._body()
            if not flags & COMMAND:
                frames.append(body)
                if not flags & MORE:
                    return frames

    def is_open(self) -> bool:
        """False when the gateway has closed the connection. What it sent meanwhile is thrown away."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(1 << 16):
                pass
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.close()

    def _body(self) -> tuple[int, bytes]:
        flags = self._exactly(1)[0]
        size = struct.unpack(">Q", self._exactly(8))[0] if flags & LONG else self._exactly(1)[0]
        return flags, self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = self.socket.recv(min(count, 1 << 16))
            if not part:
                raise ConnectionResetError("the gateway has closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)
