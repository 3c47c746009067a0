"""Messages <-> ZeroMQ frames. Frame 0 is a msgpack header; every image, and every model output, is a frame of its own.

The header is a map with `v` (schema version, checked before anything else) and `t` (message type). Headers, outputs and
compressed images have a checksum. What a gateway sends to a robot is a single frame: `joined` makes one of several, and
`decode` parts it again. Whatever the bytes, decoding raises nothing but `CodecError`. What each message
consists of is in `wire/encoders.py` and `wire/decoders.py`; how fields and arrays are read, in `wire/fields.py` and
`wire/packing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rosa_contract.errors import CodecError, VersionError
from rosa_contract.wire import messages as m
from rosa_contract.wire.packing import MAX_HEADER_BYTES, SUM, Frame, buffer, check_sum, pack, short, unpack
from tests.unit.contract.version3.decoders import DECODERS, decode_output
from tests.unit.contract.version3.encoders import ENCODERS, encode_output, response_header
from tests.unit.contract.version3.fields import MAX_IMAGES, Header

MAX_ROBOT_HEADER_BYTES = 64 << 10  # of what robots send: names, joint states and a prompt
MAX_ROBOT_ENTRIES = 1024  # of any list or map in it

# What robots send, with the keys that it may have besides "v" (version), "t" (type) and "#" (checksum).
_ROBOT_KEYS = {
    name: frozenset({"v", "t", SUM, *keys})
    for name, keys in {
        "hello": "rkcsy", "ready": "c", "request": "icbpsmhzofk", "cancel": "i", "task_ends": "ko",
        "status": "srbnpecaldu", "decided": "iocr", "bye": "", "health_query": ""
    }.items()
}  # fmt: skip

SCHEMA_VERSION = 3
_Said = m.Hello | m.Ready | m.Cancel | m.TaskEnds | m.Status | m.Decided | m.Bye | m.HealthQuery
JOINED = 0xC1  # the first byte of several frames in one; no msgpack value begins with it
_SIZE_BYTES = 4

__all__ = [
    "MAX_HEADER_BYTES",
    "MAX_IMAGES",
    "MAX_ROBOT_HEADER_BYTES",
    "Frame",
    "Header",
    "decode",
    "decode_output",
    "decode_robot",
    "encode",
    "encode_output",
    "joined",
    "read_header",
    "read_robot_header",
    "response_header",
]


def encode(message: m.Message) -> list[Frame]:
    """The frames of `message`. Raises `CodecError` for non-finite numbers and whatever a peer would refuse."""
    kind = type(message)
    if kind not in ENCODERS:
        known = ", ".join(known.__name__ for known in ENCODERS)
        raise CodecError("unexpected_message", f"cannot encode {kind.__name__}; known: {known}")
    name, encoder = ENCODERS[kind]
    header, frames = encoder(message)
    return [pack({"v": SCHEMA_VERSION, "t": name, **header}), *frames]


def joined(frames: Sequence[Frame]) -> Frame:
    """One frame for a message of one or two: [0xC1, size of the header in 4 bytes, header, the other frame]."""
    if len(frames) == 1:
        return frames[0]
    header, rest = frames
    return b"".join((bytes((JOINED,)), len(header).to_bytes(_SIZE_BYTES, "big"), header, rest))


def _parted(frames: Sequence[Frame]) -> Sequence[Frame]:
    """The frames that `joined` got; others as they are."""
    if len(frames) != 1:
        return frames
    view = buffer(frames[0])
    begin = 1 + _SIZE_BYTES
    if len(view) < begin or view[0] != JOINED:
        return frames
    end = begin + int.from_bytes(view[1:begin], "big")
    return [view[begin:end], view[end:]]


def decode(frames: Sequence[Frame]) -> m.Message:
    """The message in `frames`. Raises `CodecError` (`VersionError` for another schema) and nothing else."""
    frames = _parted(frames)
    header = read_header(frames)
    decoder = DECODERS.get(header["t"])
    if decoder is None:
        words = f"message type: expected one of {', '.join(DECODERS)}, got {short(header['t'])}"
        raise CodecError("unexpected_message", words)
    message: m.Message = decoder(header, frames)
    return message


def read_header(frames: Sequence[Frame]) -> Header:
    """Frame 0 as a map whose version is ours."""
    return _header(frames, MAX_HEADER_BYTES, MAX_HEADER_BYTES)


def read_robot_header(frames: Sequence[Frame]) -> Header:
    """Frame 0 of a robot's message. The gateway reads no more than this of a request.

    Anybody may have sent it: its size is checked before it is decoded, and no type or key is accepted that robots do
    not send.
    """
    header = _header(frames, MAX_ROBOT_HEADER_BYTES, MAX_ROBOT_ENTRIES)
    known = _ROBOT_KEYS.get(header["t"])
    if known is None:
        raise CodecError("unexpected_message", f"message type: a robot does not send {short(header['t'])}")
    if not header.keys() <= known:
        unknown = ", ".join(short(key) for key in list(header.keys() - known)[:3])
        raise CodecError("bad_field", f"{header['t']}: unknown key: {unknown}")
    return header


def decode_robot(header: Header, frames: Sequence[Frame]) -> _Said:
    """The message, other than a request, whose header `read_robot_header` has read from these frames."""
    message: _Said = DECODERS[header["t"]](header, frames)
    return message


def _header(frames: Sequence[Frame], max_bytes: int, max_entries: int) -> Header:
    if not frames:
        raise CodecError("wrong_frame_count", "empty message: expected a header frame")
    header = unpack(frames[0], "header", max_bytes, max_entries)
    # Another version may have no checksum. If there is one, it comes first: the version itself may be damaged.
    summed = SUM in header
    if summed:
        check_sum(frames[0], header, "header")
    version = header.get("v")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise VersionError(version, SCHEMA_VERSION)
    if not summed:
        raise CodecError("checksum_mismatch", "header: no checksum")
    if not isinstance(header.get("t"), str):
        raise CodecError(
            "bad_field", f"header: expected a message type under 't', got {short(header.get('t'))}"
        )
    return header
