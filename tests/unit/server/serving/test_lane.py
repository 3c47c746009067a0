"""Frames through shared memory come out as they went in."""

from __future__ import annotations

import os

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_contract.errors import CodecError
from rosa_server.serving.lane import LEAST_BYTES, LaneReader, LaneWriter
from rosa_server.serving.pool import CREDITS


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3 * LEAST_BYTES), min_size=1, max_size=12), st.integers(0, CREDITS - 1))
def test_what_is_stowed_is_fetched_whether_or_not_it_fits(sizes: list[int], slot: int) -> None:
    frames = [os.urandom(size) for size in sizes]
    writer = LaneWriter(CREDITS * 8 * LEAST_BYTES)
    reader = LaneReader(os.dup(writer.fd))
    sent = writer.stow(slot, frames)
    assert [bytes(frame) for frame in reader.fetch(sent)] == frames
    assert sum(map(len, sent[:-1])) < sum(sizes) or max(sizes) < LEAST_BYTES
    writer.close()


def test_the_slots_of_two_batches_do_not_overlap() -> None:
    writer = LaneWriter(CREDITS * 4 * LEAST_BYTES)
    reader = LaneReader(os.dup(writer.fd))
    frames = [[bytes([slot]) * (4 * LEAST_BYTES)] for slot in range(CREDITS)]
    sent = [writer.stow(slot, frames[slot]) for slot in range(CREDITS)]
    for slot in range(CREDITS):
        assert [bytes(frame) for frame in reader.fetch(sent[slot])] == frames[slot]
    writer.close()


@pytest.mark.parametrize("places", [[(0, -1, 4)], [(0, 0, 1 << 40)], [(9, 0, 1)], [(0,)], 7, "x"])
def test_a_place_outside_the_lane_is_refused(places: object) -> None:
    writer = LaneWriter(1 << 16)
    reader = LaneReader(os.dup(writer.fd))
    with pytest.raises(CodecError, match="lane"):
        reader.fetch([b"", msgpack.packb(places)])
    writer.close()
