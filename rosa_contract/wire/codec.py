"""Messages <-> ZeroMQ frames. Frame 0 is a msgpack header; every image, and every model output, is a separate frame.

The header is a map with `v` (schema version, checked before anything else), `type` (the message) and the message's
fields by their names; `#`, its checksum, is last. `v` and `#` are as they were in every version: another version is
refused with both named. Headers, outputs and compressed images have a checksum. What a gateway sends to a robot is a
single frame: `joined` makes one of several, and `decode` parts it again. Whatever the bytes, decoding raises nothing
but `CodecError`. What each message consists of is declared in `messages.py`, `status.py` and `work.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rosa_contract.errors import CodecError, VersionError
from rosa_contract.wire import framed
from rosa_contract.wire import messages as m
from rosa_contract.wire.bounds import MAX_IMAGES
from rosa_contract.wire.framed import (
    TYPE,
    VERSION,
    Parts,
    check_count,
    decode_output,
    encode_output,
    header_writer,
    type_name,
)
from rosa_contract.wire.packing import MAX_HEADER_BYTES, SUM, Frame, buffer, check_sum, sealed, short, unpack
from rosa_contract.wire.progress import Progress
from rosa_contract.wire.schema import maker, map_writer, rules_of, unknown_keys, values_reader

MAX_ROBOT_HEADER_BYTES = 64 << 10  # of what robots send: names, joint states and a prompt
MAX_ROBOT_ENTRIES = 1024  # of any list or map in it
JOINED = 0xC1  # the first byte of several frames in one; no msgpack value begins with it
_SIZE_BYTES = 4

Header = dict[str, Any]
_Said = m.Hello | m.Ready | m.Cancel | m.TaskEnds | m.Status | m.Decided | m.Bye | m.HealthQuery

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
    "packed_progress",
    "read_header",
    "read_robot_header",
    "request_header",
    "response_header",
]


def _header_only(kind: type[Any]) -> tuple[Callable[[Any], Parts], Callable[[Header, Sequence[Frame]], Any]]:
    """How a message that is nothing but a header is written and read."""
    write, read, made, name = header_writer(kind), values_reader(kind), maker(kind), kind.__name__

    def parts(message: Any) -> Parts:
        return write(message), []

    def message_from(header: Header, frames: Sequence[Frame]) -> Any:
        check_count(frames, 1, name)
        return made(read(header))

    return parts, message_from


_FRAMED: Mapping[type[Any], tuple[Callable[[Any], Parts], Callable[[Header, Sequence[Frame]], Any]]] = {
    m.Request: (framed.request_parts, framed.request_from),
    m.Response: (framed.response_parts, framed.response_from),
    m.Execute: (framed.execute_parts, framed.execute_from),
    m.Executed: (framed.executed_parts, framed.executed_from),
}
FROM_ROBOT: tuple[type[Any], ...] = m.FromRobot.__args__
KINDS: Mapping[str, type[Any]] = {type_name(kind): kind for kind in m.Message.__args__}
_NAMES = {kind: name for name, kind in KINDS.items()}
_CODECS = {kind: _FRAMED.get(kind) or _header_only(kind) for kind in KINDS.values()}
_WRITERS = {kind: write for kind, (write, _) in _CODECS.items()}
_READERS = {_NAMES[kind]: read for kind, (_, read) in _CODECS.items()}
# What robots send, with the keys that each may have.
_ROBOT_KEYS = {_NAMES[kind]: frozenset({VERSION, TYPE, SUM, *rules_of(kind)}) for kind in FROM_ROBOT}
packed_progress: Callable[[Progress], dict[str, Any]] = map_writer(Progress, strict=True)


def encode(message: m.Message) -> list[Frame]:
    """The frames of `message`. Raises `CodecError` for non-finite numbers and whatever a peer would refuse."""
    write = _WRITERS.get(type(message))
    if write is None:
        words = (
            f"cannot encode {type(message).__name__}; known: {', '.join(kind.__name__ for kind in _NAMES)}"
        )
        raise CodecError("unexpected_message", words)
    header, frames = write(message)
    return [sealed(header), *frames]


def request_header(request_id: int, component: str, budget_ms: float) -> Header:
    """What a gateway reads of a request without pictures and state, for whoever simulates robots."""
    return {"request_id": request_id, "component": component, "budget_ms": budget_ms, "images": []}


def response_header(message: m.Response) -> bytes:
    """Frame 0 of a response; frame 1, with status ok, is the worker's output frame, untouched."""
    return sealed(framed.response_fields(message))


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
    read = _READERS.get(header[TYPE])
    if read is None:
        words = f"message type: expected one of {', '.join(_READERS)}, got {short(header[TYPE])}"
        raise CodecError("unexpected_message", words)
    message: m.Message = read(header, frames)
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
    known = _ROBOT_KEYS.get(header[TYPE])
    if known is None:
        raise CodecError("unexpected_message", f"message type: a robot does not send {short(header[TYPE])}")
    if not header.keys() <= known:
        raise CodecError("bad_field", f"{header[TYPE]}: unknown key: {unknown_keys(header, known)}")
    return header


def decode_robot(header: Header, frames: Sequence[Frame]) -> _Said:
    """The message, other than a request, whose header `read_robot_header` has read from these frames."""
    message: _Said = _READERS[header[TYPE]](header, frames)
    return message


def _header(frames: Sequence[Frame], max_bytes: int, max_entries: int) -> Header:
    if not frames:
        raise CodecError("wrong_frame_count", "empty message: expected a header frame")
    data = buffer(frames[0])
    header = unpack(data, "header", max_bytes, max_entries)
    # Another version may have no checksum. If there is one, it comes first: the version itself may be damaged.
    summed = SUM in header
    if summed:
        check_sum(data, header, "header")
    version = header.get(VERSION)
    if version != m.SCHEMA_VERSION or isinstance(version, bool):
        raise VersionError(version, m.SCHEMA_VERSION)
    if not summed:
        raise CodecError("checksum_mismatch", "header: no checksum")
    if not isinstance(header.get(TYPE), str):
        words = f"header: expected a message type under {TYPE!r}, got {short(header.get(TYPE))}"
        raise CodecError("bad_field", words)
    return header
