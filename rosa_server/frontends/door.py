"""Listening sockets whose `accept` returns only connections that the entrance lets in.

Whoever is refused costs the frontend an `accept` and a `close`, and no transport, task or handshake. A connection
counts from here on, so one that never ends its TLS handshake counts as well.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

from rosa_server.frontends.limits import Entrance

QUEUE = 512  # connections that the kernel holds meanwhile
ACCEPTED_AT_ONCE = (
    2  # before the frontend does something else, for asyncio, which calls it `backlog`: 1 ms each
)
REFUSED_AT_ONCE = 64
TOO_MANY = "too_many_connections"


class Door(socket.socket):
    """Bound to an address; asyncio listens on it. `refused`: is told the cause, the reason and the peer."""

    def __init__(self, family: int, entrance: Entrance, refused: Callable[[str, str, object], None]) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._entrance, self._refused = entrance, refused

    def listen(self, backlog: int = QUEUE, /) -> None:
        """asyncio's `backlog` is how many it accepts at once; the kernel's queue is longer."""
        super().listen(QUEUE)

    def accept(self) -> tuple[socket.socket, Any]:
        """The next one that is let in. Raises `BlockingIOError` where there is none, or when it is others' turn."""
        for _ in range(REFUSED_AT_ONCE):
            connection, peer = super().accept()
            ends, why = self._entrance.accepted(time.monotonic(), connection, peer)
            if not isinstance(ends, socket.socket):
                return connection, peer
            self._refused(TOO_MANY, why, peer)
            if ends is connection:
                connection.close()
                continue
            with contextlib.suppress(OSError):  # it has gone by itself
                ends.shutdown(socket.SHUT_RDWR)  # whoever reads it finds its end
            return connection, peer
        raise BlockingIOError


def doors(
    host: str, port: int, entrance: Entrance, refused: Callable[[str, str, object], None]
) -> list[Door]:
    """One for each address of `host`. Raises `OSError`."""
    found: list[Door] = []
    try:
        known = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(known):
            one = Door(family, entrance, refused)
            found.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.setblocking(False)
            one.bind(address)
    except OSError as error:
        for one in found:
            one.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from None
    return found
