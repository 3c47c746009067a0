"""Shared memory for image frames between a gateway and a worker on the same machine.

Control messages travel over ZeroMQ for every worker; for a local one the large frames of a batch are written once into
memory that both map, instead of through two sockets. The memory is anonymous (memfd): the worker inherits its
descriptor, no name exists, and it is gone with its last user. Without a lane the frames are sent as they are.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any

import msgpack

from rosa_contract.errors import CodecError
from rosa_server.serving.pool import CREDITS

LANE_BYTES = 64 << 20  # address space; a page costs memory when it is first written
LEAST_BYTES = 8 << 10  # smaller frames are cheaper to send


class LaneWriter:
    """The gateway's end: one slot per batch that the worker may hold."""

    def __init__(self, size: int = LANE_BYTES) -> None:
        self.fd = os.memfd_create("rosa-lane", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, size)
        self._memory = mmap.mmap(self.fd, size)
        self._slot_bytes = size // CREDITS

    def stow(self, slot: int, frames: Sequence[Any]) -> list[Any]:
        """`frames` with the large ones emptied, and one more frame that says where they are.

        What does not fit into the slot stays in place and is sent.
        """
        at, end = slot * self._slot_bytes, (slot + 1) * self._slot_bytes
        left: list[Any] = []
        places: list[tuple[int, int, int]] = []
        for index, frame in enumerate(frames):
            size = len(frame)
            if size < LEAST_BYTES or at + size > end:
                left.append(frame)
                continue
            self._memory[at : at + size] = memoryview(frame)
            places.append((index, at, size))
            left.append(b"")
            at += size
        left.append(msgpack.packb(places))
        return left

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)


class LaneReader:
    """The worker's end. What it hands out is valid until the batch is answered."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        self._view = memoryview(self._memory)
        os.close(fd)

    def fetch(self, frames: Sequence[Any]) -> list[Any]:
        """The frames as they were given to `stow`. Raises `CodecError` for places outside the lane."""
        *whole, last = frames
        try:
            places = msgpack.unpackb(memoryview(last))
            for index, at, size in places:
                if at < 0 or size < 0 or at + size > len(self._view):
                    raise ValueError(f"{size} bytes at {at} are outside the lane of {len(self._view)}")
                whole[index] = self._view[at : at + size]
        except (ValueError, TypeError, IndexError, msgpack.UnpackException) as error:
            raise CodecError(f"lane: {error}") from None
        return whole
