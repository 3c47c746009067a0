"""Frames sent through shared memory arrive as they were sent, and a batch that does not fit is not sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_contract.errors import CodecError
from rosa_server.serving.base.shared_memory import MESSAGE_BYTES, MIN_BYTES, ShmReader, ShmWriter
from rosa_server.serving.core.workers.worker_state import CREDITS


@contextmanager
def channel(size: int = CREDITS * 8 * MIN_BYTES) -> Iterator[tuple[ShmWriter, ShmReader]]:
    """Both ends, the worker's on descriptors of its own as after a fork."""
    writer = ShmWriter(size)
    reader = ShmReader(*map(os.dup, writer.fds))
    writer.theirs.close()
    yield writer, reader
    reader.socket.close()
    writer.close()


@settings(max_examples=50)
@given(st.lists(st.integers(0, 3 * MIN_BYTES), min_size=1, max_size=12), st.integers(0, CREDITS - 1))
def test_what_is_sent_is_received_whether_it_fits_into_the_buffer_or_not(
    sizes: list[int], buffer: int
) -> None:
    frames = [os.urandom(size) for size in sizes]
    with channel() as (writer, reader):
        if writer.send(buffer, frames):
            received = reader.receive()
            assert received is not None
            assert [bytes(frame) for frame in received] == frames
        else:
            assert sum(sizes) > MESSAGE_BYTES


def test_the_buffers_of_two_batches_do_not_overlap() -> None:
    with channel(CREDITS * 4 * MIN_BYTES) as (writer, reader):
        frames = [[bytes([buffer]) * (4 * MIN_BYTES)] for buffer in range(CREDITS)]
        sent = [writer.write(buffer, frames[buffer]) for buffer in range(CREDITS)]
        for buffer in range(CREDITS):
            assert [bytes(frame) for frame in reader.read(sent[buffer])] == frames[buffer]


def test_an_answer_goes_back_and_one_that_is_too_large_is_not_sent() -> None:
    with channel() as (writer, reader):
        assert writer.receive() is None
        assert reader.send([b"header", b"output"])
        assert writer.receive() == [b"header", b"output"]
        assert not reader.send([bytes(MESSAGE_BYTES + 1)])


def test_the_end_of_either_side_is_seen_by_the_other() -> None:
    with channel() as (writer, reader):
        reader.socket.close()
        with pytest.raises(EOFError):
            writer.receive()
        assert not writer.send(0, [b"header"])
    with channel() as (writer, reader):
        writer.socket.close()
        with pytest.raises(EOFError):
            reader.receive()


@pytest.mark.parametrize("message", [b"garbage", msgpack.packb(7), msgpack.packb([1]), msgpack.packb([])])
def test_garbage_from_the_other_side_raises_the_contracts_error(message: bytes) -> None:
    with channel() as (writer, reader):
        reader.socket.send(message)
        with pytest.raises(CodecError, match="shared memory"):
            writer.receive()


@pytest.mark.parametrize("places", [[(0, -1, 4)], [(0, 0, 1 << 40)], [(9, 0, 1)], [(0,)], 7, "x"])
def test_a_place_outside_the_memory_is_refused(places: object) -> None:
    with channel() as (_, reader), pytest.raises(CodecError, match="shared memory"):
        reader.read([b"", msgpack.packb(places)])
