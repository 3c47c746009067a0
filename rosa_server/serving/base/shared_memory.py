"""Shared memory and a socket pair between a gateway and a worker on the same machine.

Every worker speaks ZeroMQ. A local one gets its batches and sends its answers this way instead: the large frames of a
batch are written once, into memory that both processes map, and small ones go through the socket pair, which saves
ZeroMQ's four thread switches. Memory (memfd) and sockets have no names: the worker inherits the descriptors, and they
are gone with their last user. What does not fit goes over ZeroMQ.
"""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Sequence
from typing import Any

import msgpack

from rosa_contract.errors import CodecError
from rosa_contract.wire.packing import packed
from rosa_server.serving.core.workers.worker_state import CREDITS

SHM_BYTES = 64 << 20  # address space; a page costs memory when it is first written
MESSAGE_BYTES = 128 << 10  # largest message on the socket pair, below Linux's default buffer
MIN_BYTES = 8 << 10  # smaller frames are cheaper to send


class ShmWriter:
    """The gateway's end. The memory is split into one buffer for each batch that the worker may hold."""

    def __init__(self, size: int = SHM_BYTES) -> None:
        self.fd = os.memfd_create("rosa-worker", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.fd, size)
            self._memory = mmap.mmap(self.fd, size)
            self.socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            os.close(self.fd)
            raise
        self._size = size
        self._inbox = bytearray(2 * MESSAGE_BYTES)
        self.socket.setblocking(False)

    @property
    def fds(self) -> tuple[int, int]:
        """What the worker inherits."""
        return self.fd, self.theirs.fileno()

    def send(self, buffer: int, frames: Sequence[Any], buffers: int = CREDITS) -> bool:
        """Send a batch; False when it does not fit and has to go over ZeroMQ. `buffers`: the same in every call."""
        return _send(self.socket, self.write(buffer, frames, buffers))

    def receive(self) -> list[bytes] | None:
        """The next message of the worker, or None. Raises `EOFError` when the worker has ended."""
        return _receive(self.socket, self._inbox)

    def write(self, buffer: int, frames: Sequence[Any], buffers: int = CREDITS) -> list[Any]:
        """`frames` with the large ones emptied, and one more frame that says where they are.

        A frame that does not fit into the buffer stays in place and is sent.
        """
        buffer_bytes = self._size // buffers
        at, end = buffer * buffer_bytes, (buffer + 1) * buffer_bytes
        left: list[Any] = []
        places: list[tuple[int, int, int]] = []
        for index, frame in enumerate(frames):
            size = len(frame)
            if size < MIN_BYTES or at + size > end:
                left.append(frame)
                continue
            self._memory[at : at + size] = memoryview(frame)
            places.append((index, at, size))
            left.append(b"")
            at += size
        left.append(packed(places))
        return left

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)
        self.socket.close()
        self.theirs.close()


class ShmReader:
    """The worker's end. What it hands out is valid until the batch is answered."""

    def __init__(self, fd: int, socket_fd: int) -> None:
        self.socket = socket.socket(fileno=socket_fd)
        self.socket.setblocking(False)
        self._memory = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        self._view = memoryview(self._memory)
        self._inbox = bytearray(2 * MESSAGE_BYTES)
        os.close(fd)

    def send(self, frames: Sequence[Any]) -> bool:
        """Send an answer; False when it is too large and has to go over ZeroMQ."""
        return _send(self.socket, frames)

    def receive(self) -> list[Any] | None:
        """The next batch, or None. Raises `EOFError` when the gateway has ended."""
        frames = _receive(self.socket, self._inbox)
        return None if frames is None else self.read(frames)

    def read(self, frames: Sequence[Any]) -> list[Any]:
        """The frames as they were given to `write`. Raises `CodecError` for places outside the memory."""
        *whole, last = frames
        try:
            places = msgpack.unpackb(memoryview(last))
            for index, at, size in places:
                if at < 0 or size < 0 or at + size > len(self._view):
                    raise ValueError(f"{size} bytes at {at} are outside the memory of {len(self._view)}")
                whole[index] = self._view[at : at + size]
        except (ValueError, TypeError, IndexError, msgpack.UnpackException) as error:
            raise CodecError("bad_field", f"shared memory: {error}") from None
        return whole


def _send(end: socket.socket, frames: Sequence[Any]) -> bool:
    if sum(map(len, frames)) > MESSAGE_BYTES:
        return False
    try:
        end.send(packed([bytes(frame) for frame in frames]))
    except (BlockingIOError, OSError):  # the socket is full, or the peer has just ended
        return False
    return True


def _receive(end: socket.socket, inbox: bytearray) -> list[Any] | None:
    """`inbox`: where a message is read into; room for one made at each call would take longer than reading it."""
    try:
        size = end.recv_into(inbox)
    except BlockingIOError:
        return None
    except OSError as error:
        raise EOFError(str(error)) from None
    if not size:
        raise EOFError("the other end is closed")
    try:
        frames = msgpack.unpackb(memoryview(inbox)[:size])
    except (ValueError, msgpack.UnpackException) as error:
        raise CodecError("not_msgpack", f"shared memory: {error}") from None
    if not isinstance(frames, list) or not frames or not all(isinstance(frame, bytes) for frame in frames):
        raise CodecError("bad_field", "shared memory: expected a list of frames")
    return frames
