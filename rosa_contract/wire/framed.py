"""The four messages that have more than a header: what is in their further frames, and what belongs together."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.wire import messages as m
from rosa_contract.wire.bounds import MAX_BATCH, MAX_IMAGES
from rosa_contract.wire.containers import Several
from rosa_contract.wire.images import EncodedImage
from rosa_contract.wire.packing import (
    MAX_ARRAY_BYTES,
    MAX_HEADER_BYTES,
    Frame,
    buffer,
    check_sum,
    image_sum,
    sealed,
    unpack,
)
from rosa_contract.wire.rules import Whole, refused
from rosa_contract.wire.schema import Object, maker, map_writer, values_reader

VERSION, TYPE = "v", "type"
Parts = tuple[dict[str, Any], list[Frame]]  # of a message: its header, its further frames


def type_name(kind: type[Any]) -> str:
    """What a message is called in its header, such as "health_query" for `HealthQuery`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def header_writer(kind: type[Any]) -> Callable[[Any], dict[str, Any]]:
    """Writes a message's header, which begins with version and type."""
    return map_writer(kind, head={VERSION: m.SCHEMA_VERSION, TYPE: type_name(kind)})


_HEAD = Object(m.ImageHead).fields_reader("Request: images")
_WRITE_REQUEST, _READ_REQUEST = header_writer(m.Request), values_reader(m.Request)
_WRITE_RESPONSE, _READ_RESPONSE = header_writer(m.Response), values_reader(m.Response)
_WRITE_EXECUTE, _READ_EXECUTE = header_writer(m.Execute), values_reader(m.Execute)
_WRITE_EXECUTED, _READ_EXECUTED = header_writer(m.Executed), values_reader(m.Executed)
_WRITE_OUTPUT, _READ_OUTPUT = map_writer(m.Output, strict=True), values_reader(m.Output)
_REQUEST, _RESPONSE, _EXECUTE, _EXECUTED = map(maker, (m.Request, m.Response, m.Execute, m.Executed))
_OUTPUT, _IMAGE = maker(m.Output), maker(EncodedImage)
_COUNTS = Several(Whole(1, MAX_IMAGES + 1), MAX_BATCH, list).reader("Execute: frame_counts")


def check_count(frames: Sequence[Frame], expected: int, what: str) -> None:
    if len(frames) != expected:
        raise CodecError("wrong_frame_count", f"{what}: expected {expected} frames, got {len(frames)}")


def request_parts(message: m.Request) -> Parts:
    header = _WRITE_REQUEST(message)
    header["images"] = [
        {
            "camera": camera,
            "encoding": one.encoding,
            "height": one.height,
            "width": one.width,
            "checksum": image_sum(one.encoding, one.data),
        }
        for camera, one in message.images.items()
    ]
    return header, [one.data for one in message.images.values()]


def request_from(header: dict[str, Any], frames: Sequence[Frame]) -> m.Request:
    listed = header.get("images")
    if not isinstance(listed, list) or len(listed) > MAX_IMAGES:
        raise refused("Request: images", f"a list of at most {MAX_IMAGES}", listed)
    check_count(frames, 1 + len(listed), "Request")
    images: dict[str, EncodedImage] = {}
    for entry, frame in zip(listed, frames[1:], strict=True):
        head = _HEAD(entry)
        camera, encoding = head["camera"], head["encoding"]
        if camera in images:
            raise CodecError("bad_field", f"Request: camera {camera!r}: duplicate")
        if image_sum(encoding, frame) != head["checksum"]:
            raise CodecError("checksum_mismatch", f"Request: camera {camera!r}: checksum mismatch")
        size = {"height": head["height"], "width": head["width"]}
        images[camera] = _IMAGE({"encoding": encoding, **size, "data": buffer(frame)})
    values = _READ_REQUEST(header)
    values["images"] = images
    request: m.Request = _REQUEST(values)
    return request


def encode_output(output: m.Output) -> bytes:
    """One frame. Raises `CodecError` for whatever `decode_output` refuses, so that no robot ever has to."""
    return sealed(_WRITE_OUTPUT(output))


def decode_output(frame: Frame) -> m.Output:
    """A model's output from its frame."""
    data = buffer(frame)
    body = unpack(data, "output", MAX_ARRAY_BYTES + MAX_HEADER_BYTES, MAX_HEADER_BYTES)
    check_sum(data, body, "output")
    output: m.Output = _OUTPUT(_READ_OUTPUT(body))
    return output


def response_fields(message: m.Response) -> dict[str, Any]:
    """The header of a response, whose output, if there is one, is encoded already."""
    if not m.fits(message.status, message.cause):
        words = f"{message.cause!r} is no cause of status {message.status!r}"
        raise CodecError("bad_field", f"Response: {words}")
    return _WRITE_RESPONSE(message)


def response_parts(message: m.Response) -> Parts:
    return response_fields(message), [] if message.output is None else [encode_output(message.output)]


def response_from(header: dict[str, Any], frames: Sequence[Frame]) -> m.Response:
    values = _READ_RESPONSE(header)
    status, cause = values["status"], values["cause"]
    if not m.fits(status, cause):
        raise CodecError("bad_field", f"Response: {cause!r} is no cause of status {status!r}")
    check_count(frames, 2 if status == m.OK else 1, f"Response {status}")
    values["output"] = decode_output(frames[1]) if status == m.OK else None
    response: m.Response = _RESPONSE(values)
    return response


def execute_parts(message: m.Execute) -> Parts:
    header = _WRITE_EXECUTE(message)
    header["frame_counts"] = [len(frames) for frames in message.frames]
    return header, [frame for frames in message.frames for frame in frames]


def execute_from(header: dict[str, Any], frames: Sequence[Frame]) -> m.Execute:
    counts, values = _COUNTS(header.get("frame_counts")), _READ_EXECUTE(header)
    tickets, senders = values["tickets"], values["senders"]
    if len(tickets) != len(counts):
        raise CodecError("bad_field", f"Execute: {len(tickets)} tickets but {len(counts)} frame counts")
    if senders and len(senders) != len(tickets):
        raise CodecError("bad_field", f"Execute: {len(tickets)} tickets but {len(senders)} senders")
    check_count(frames, 1 + sum(counts), "Execute")
    split, start = [], 1
    for count in counts:
        split.append(frames[start : start + count])
        start += count
    values["frames"] = split
    execute: m.Execute = _EXECUTE(values)
    return execute


def executed_parts(message: m.Executed) -> Parts:
    return _WRITE_EXECUTED(message), list(message.outputs)


def executed_from(header: dict[str, Any], frames: Sequence[Frame]) -> m.Executed:
    values = _READ_EXECUTED(header)
    tickets, errors, times = values["tickets"], values["errors"], values["decode_ms"]
    if len(tickets) != len(errors):
        raise CodecError("bad_field", f"Executed: {len(tickets)} tickets but {len(errors)} results")
    if times and len(times) != len(tickets):
        raise CodecError("bad_field", f"Executed: {len(tickets)} tickets but {len(times)} times of decoding")
    check_count(frames, 1 + len(tickets), "Executed")
    values["outputs"] = list(frames[1:])
    executed: m.Executed = _EXECUTED(values)
    return executed
