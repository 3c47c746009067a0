"""Which of a thread's sockets have something to read, with few system calls.

`zmq_poll` asks each ZeroMQ socket for its state before and after each wait, and the kernel for all of them both times:
six system calls and more for each turn of a gateway with two sockets. Here a wait is one call, and a ZeroMQ socket is
asked only where its state may have changed since it was found empty: when its descriptor says that a command has come,
or when somebody has used it in between, since that takes commands from the descriptor unseen (`used`).

To be woken takes a thread longer than a small message takes to read. So it may be told to stay awake for a moment after
something has come, and to ask again and again: that takes a whole core meanwhile.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable

import zmq

POLLIN, EVENTS = int(zmq.POLLIN), int(zmq.EVENTS)  # pyzmq's enums are slow to combine
Source = zmq.Socket[bytes] | int


class Readiness:
    """For one thread, which alone uses the sockets."""

    def __init__(self, awake_s: float = 0.0, now_s: Callable[[], float] = time.monotonic) -> None:
        """`awake_s`: how long it asks without sleeping after something has come."""
        self._awake_s, self._now_s = awake_s, now_s
        self._came_s = -math.inf
        self._poll = select.poll()
        self._sockets: dict[int, zmq.Socket[bytes]] = {}  # by descriptor
        self._always: list[int] = []  # of sockets that are asked before each wait
        self._unsure: set[int] = (
            set()
        )  # of sockets that may have something to read whatever their descriptors say

    def register(self, source: Source, asked_always: bool = True) -> int:
        """A ZeroMQ socket or a descriptor, to be waited for. Returns its descriptor.

        `asked_always`: before each wait, as where others use the socket and say nothing of it.
        """
        fd = source if isinstance(source, int) else int(source.getsockopt(zmq.FD))
        if not isinstance(source, int):
            self._sockets[fd] = source
            self._unsure.add(fd)
            if asked_always:
                self._always.append(fd)
        self._poll.register(fd, select.POLLIN)
        return fd

    def unregister(self, fd: int) -> None:
        """Wait for a descriptor no more."""
        self._poll.unregister(fd)

    def used(self, fd: int) -> None:
        """Something was sent through a ZeroMQ socket, or read from it, since `wait` named it."""
        self._unsure.add(fd)

    def empty(self, fd: int) -> None:
        """A ZeroMQ socket was found empty, by its `EVENTS`, since it was used."""
        self._unsure.discard(fd)

    def wait(self, timeout_ms: int) -> list[Source]:
        """What can be read, after at most `timeout_ms`. A ZeroMQ socket is named again until it is found empty."""
        self._unsure.update(self._always)
        found: list[Source] = [self._sockets[fd] for fd in sorted(self._unsure) if self._readable(fd)]
        for fd, _ in self._poll.poll(0) if found else self._come(timeout_ms):
            socket = self._sockets.get(fd)
            if socket is None:
                found.append(fd)
            elif fd not in self._unsure and self._readable(fd):
                found.append(socket)
        if found and self._awake_s:
            self._came_s = self._now_s()
        return found

    def _come(self, timeout_ms: int) -> list[tuple[int, int]]:
        """The descriptors that have something, after at most `timeout_ms`."""
        if self._awake_s and timeout_ms:
            now_s = began_s = self._now_s()
            end_s = min(self._came_s + self._awake_s, began_s + timeout_ms / 1000)
            while now_s < end_s:
                if come := self._poll.poll(0):
                    return come
                now_s = self._now_s()
            timeout_ms = max(0, math.ceil(timeout_ms - (now_s - began_s) * 1000))
        return self._poll.poll(timeout_ms)

    def _readable(self, fd: int) -> bool:
        if (
            int(self._sockets[fd].getsockopt(EVENTS)) & POLLIN
        ):  # asking takes all commands from the descriptor
            self._unsure.add(fd)
            return True
        self._unsure.discard(fd)
        return False
