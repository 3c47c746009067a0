"""No bytes whatever raise anything but the contract's own error."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage, decode_image
from rosa_contract.wire.packing import pack
from rosa_contract.wire.schema import rules_of
from tests.examples import examples
from tests.unit.contract.wire.samples import MESSAGES


def _only_codec_errors(frames: list[bytes]) -> None:
    try:
        message = codec.decode(frames)
    except CodecError as error:
        assert str(error)
        return
    if isinstance(message, m.Request):
        for image in message.images.values():
            with contextlib.suppress(CodecError):
                assert decode_image(image).shape == (image.height, image.width, 3)


def test_ten_thousand_damaged_messages_raise_nothing_but_codec_errors() -> None:
    """Real messages with bits flipped, bytes cut, frames dropped, doubled, swapped or replaced by noise."""
    rng = random.Random(1)
    originals = [[bytes(frame) for frame in codec.encode(message)] for message in MESSAGES]
    for _ in range(10_000):
        frames = list(rng.choice(originals))
        for _ in range(rng.randint(1, 3)):
            if not frames:
                break
            index = rng.randrange(len(frames))
            frame = bytearray(frames[index])
            kind = rng.randrange(6)
            if kind == 0 and frame:
                frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
                frames[index] = bytes(frame)
            elif kind == 1:
                frames[index] = bytes(frame[: rng.randrange(len(frame) + 1)])
            elif kind == 2:
                del frames[index]
            elif kind == 3:
                frames.insert(rng.randrange(len(frames) + 1), bytes(frame))
            elif kind == 4:
                frames[index] = rng.randbytes(rng.randrange(64))
            else:
                rng.shuffle(frames)
        _only_codec_errors(frames)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats()
    | st.text(max_size=6)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@pytest.mark.prove
@settings(max_examples=examples(500, 3000))
@given(st.data(), st.sampled_from(sorted(codec.KINDS)), st.lists(st.binary(max_size=20), max_size=3))
def test_well_formed_headers_with_absurd_fields_raise_nothing_else(
    data: st.DataObject, kind: str, rest: list[bytes]
) -> None:
    """500 headers; 3,000 in `make prove`."""
    known = [*rules_of(codec.KINDS[kind]), "frame_counts"]
    fields = data.draw(st.dictionaries(st.sampled_from(known), plain, max_size=8))
    try:
        header = pack({**fields, "v": m.SCHEMA_VERSION, "type": kind})
    except CodecError:
        return  # not encodable, so nobody can send it
    _only_codec_errors([header, *rest])


@pytest.mark.slow
@settings(max_examples=2000)
@given(st.lists(st.binary(max_size=200), max_size=4))
def test_noise_raises_nothing_else(frames: list[bytes]) -> None:
    _only_codec_errors(frames)


@pytest.mark.slow
@settings(max_examples=1000)
@given(
    st.sampled_from(["jpeg", "png", "rgb8"]),
    st.binary(max_size=400),
    st.integers(-1, 5000),
    st.integers(-1, 5000),
)
def test_no_image_bytes_raise_anything_else(encoding: str, data: bytes, height: int, width: int) -> None:
    try:
        decode_image(EncodedImage(encoding, height, width, data))
    except CodecError as error:
        assert str(error)
