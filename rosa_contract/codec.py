"""Messages <-> ZeroMQ frames. Frame 0 is a msgpack header; every image, and every model output, is a frame of its own.

The header is a map with `v` (schema version, checked before anything else) and `t` (message type). Arrays travel as
dtype + shape + bytes of a short list of plain dtypes; non-finite numbers are refused at both ends. Headers, outputs and
compressed images have a checksum: TCP's own is weak, and a flipped bit in a joint angle would look like another angle.
It is no protection against people; CURVE is. Whatever the bytes, decoding raises nothing but `CodecError`.
"""

from __future__ import annotations

import math
import reprlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
import numpy as np

from rosa_contract import messages as m
from rosa_contract.errors import CodecError, VersionError
from rosa_contract.images import ENCODINGS, EncodedImage, check_size

Frame = Any  # bytes, memoryview or zmq.Frame: anything with the buffer interface
Header = dict[str, Any]

MAX_HEADER_BYTES = 1 << 20
MAX_ROBOT_HEADER_BYTES = 64 << 10  # of what robots send: names, joint states and a prompt
MAX_ROBOT_ENTRIES = 1024  # of any list or map in it
MAX_NAME_CHARS = 128
MAX_TEXT_CHARS = 1 << 16
MAX_IMAGES = 16
MAX_ARRAYS = 64
MAX_BATCH = 4096
MAX_ARRAY_BYTES = 1 << 24
MAX_NDIM = 4
MAX_ID = (1 << 63) - 1
SUM = "#"  # the last entry of every packed map: the CRC-32 of all bytes before the number itself
SUM_BYTES = 4
MAX_RATE_HZ = 1e6
_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother = 3, 60, 60
DTYPES = ("<f4", "<f8", "<f2", "<i4", "<i8", "|u1", "|b1")


def encode(message: m.Message) -> list[Frame]:
    """The frames of `message`. Raises `CodecError` for non-finite numbers and whatever a peer would refuse."""
    kind = type(message)
    if kind not in _ENCODERS:
        raise CodecError(f"cannot encode {kind.__name__}; known: {', '.join(c.__name__ for c in _ENCODERS)}")
    name, encoder = _ENCODERS[kind]
    header, frames = encoder(message)
    return [_pack({"v": m.SCHEMA_VERSION, "t": name, **header}), *frames]


def decode(frames: Sequence[Frame]) -> m.Message:
    """The message in `frames`. Raises `CodecError` (`VersionError` for another schema) and nothing else."""
    header = read_header(frames)
    decoder = _DECODERS.get(header["t"])
    if decoder is None:
        raise CodecError(f"message type: expected one of {', '.join(_DECODERS)}, got {header['t']!r}")
    message: m.Message = decoder(header, frames)
    return message


def read_header(frames: Sequence[Frame]) -> Header:
    """Frame 0 as a map whose version is ours."""
    return _header(frames, MAX_HEADER_BYTES, MAX_HEADER_BYTES)


def read_robot_header(frames: Sequence[Frame]) -> Header:
    """Frame 0 of a robot's message, of which the gateway reads no more than this.

    Bounded before it is decoded, and no type and no key that robots do not send: anybody may have sent it.
    """
    header = _header(frames, MAX_ROBOT_HEADER_BYTES, MAX_ROBOT_ENTRIES)
    known = _ROBOT_KEYS.get(header["t"])
    if known is None:
        raise CodecError(f"message type: a robot does not send {_short(header['t'])}")
    if not header.keys() <= known:
        unknown = ", ".join(_short(key) for key in list(header.keys() - known)[:3])
        raise CodecError(f"{header['t']}: unknown key: {unknown}")
    return header


def decode_robot(header: Header, frames: Sequence[Frame]) -> m.Hello | m.Bye | m.HealthQuery:
    """The message, other than a request, of a header that `read_robot_header` has read from these frames."""
    message: m.Hello | m.Bye | m.HealthQuery = _DECODERS[header["t"]](header, frames)
    return message


def _header(frames: Sequence[Frame], limit: int, entries: int) -> Header:
    if not frames:
        raise CodecError("empty message: expected a header frame")
    header = _unpack(frames[0], "header", limit, entries)
    if not isinstance(header, dict):
        raise CodecError(f"header: expected a map, got {type(header).__name__}")
    # Another version may have no checksum; where there is one, it comes first: the version may be what was damaged.
    summed = SUM in header
    if summed:
        _check_sum(frames[0], header, "header")
    if header.get("v") != m.SCHEMA_VERSION or isinstance(header.get("v"), bool):
        raise VersionError(header.get("v"), m.SCHEMA_VERSION)
    if not summed:
        raise CodecError("header: no checksum")
    if not isinstance(header.get("t"), str):
        raise CodecError(f"header: expected a message type under 't', got {_short(header.get('t'))}")
    return header


# -- the outputs of models: one frame, made by the worker and passed through by the gateway ------------------------


def encode_output(output: m.Output) -> bytes:
    """One frame. Raises `CodecError` for a non-finite value, so that no robot ever sees one."""
    return _pack({"a": _pack_arrays(output.arrays), "w": output.verdict, "x": output.text})


def decode_output(frame: Frame) -> m.Output:
    body = _unpack(frame, "output", MAX_ARRAY_BYTES + MAX_HEADER_BYTES, MAX_HEADER_BYTES)
    if not isinstance(body, dict):
        raise CodecError(f"output: expected a map, got {type(body).__name__}")
    _check_sum(frame, body, "output")
    return m.Output(_arrays(body, "a"), _text(body, "w", MAX_NAME_CHARS), _text(body, "x", MAX_TEXT_CHARS))


# -- encoders: message -> (header, further frames) ----------------------------------------------------------------


def _encode_hello(message: m.Hello) -> tuple[Header, list[Frame]]:
    cameras = {name: [c.height, c.width, c.encoding] for name, c in message.cameras.items()}
    header: Header = {"r": message.robot_id, "k": message.task, "c": cameras, "s": dict(message.state)}
    if message.token:
        header["y"] = message.token
    return header, []


def _encode_welcome(message: m.Welcome) -> tuple[Header, list[Frame]]:
    # What is empty is left out: a peer from before it existed reads the same message.
    header: Header = {"m": dict(message.models)}
    if message.rates_hz:
        header["f"] = {name: _finite(f"rate of {name}", rate) for name, rate in message.rates_hz.items()}
    if message.cameras:
        header["g"] = {component: list(cameras) for component, cameras in message.cameras.items()}
    if message.token:
        header["y"] = message.token
    return header, []


def _encode_request(message: m.Request) -> tuple[Header, list[Frame]]:
    images = [[name, i.encoding, i.height, i.width] for name, i in message.images.items()]
    header = {
        "i": message.request_id,
        "c": message.component,
        "b": _finite("budget_ms", message.budget_ms),
        "p": message.prompt,
        "s": _pack_arrays(message.state),
        "m": images,
        "h": [_image_sum(image.encoding, image.data) for image in message.images.values()],
    }
    return header, [image.data for image in message.images.values()]


def response_header(
    request_id: int, status: str, reason: str, queue_ms: float, inference_ms: float, batch_size: int
) -> bytes:
    """Frame 0 of a response; frame 1, with status ok, is the worker's output frame, untouched."""
    return _pack(
        {
            "v": m.SCHEMA_VERSION,
            "t": "response",
            "i": request_id,
            "s": status,
            "r": reason,
            "q": queue_ms,
            "n": inference_ms,
            "z": batch_size,
        }
    )


def _encode_response(message: m.Response) -> tuple[Header, list[Frame]]:
    header = {
        "i": message.request_id,
        "s": message.status,
        "r": message.reason,
        "q": message.queue_ms,
        "n": message.inference_ms,
        "z": message.batch_size,
    }
    return header, [] if message.output is None else [encode_output(message.output)]


def _encode_health(message: m.HealthReport) -> tuple[Header, list[Frame]]:
    queues, workers = dict(message.queues), dict(message.workers)
    return {"o": message.ready, "w": workers, "q": queues, "r": list(message.robots)}, []


def _encode_ready(message: m.WorkerReady) -> tuple[Header, list[Frame]]:
    images = {name: list(size) for name, size in message.images.items()}
    body = {
        "w": message.worker_id,
        "m": message.model,
        "b": message.max_batch,
        "i": images,
        "s": dict(message.state),
    }
    return body, []


def _encode_execute(message: m.Execute) -> tuple[Header, list[Frame]]:
    counts = [len(frames) for frames in message.frames]
    header = {"i": message.batch_id, "k": list(message.tickets), "n": counts}
    return header, [frame for frames in message.frames for frame in frames]


def _encode_executed(message: m.Executed) -> tuple[Header, list[Frame]]:
    header = {
        "i": message.batch_id,
        "k": list(message.tickets),
        "n": message.inference_ms,
        "e": [list(error) for error in message.errors],
    }
    return header, list(message.outputs)


# -- decoders: (header, all frames) -> message ---------------------------------------------------------------------


def _decode_hello(header: Header, frames: Sequence[Frame]) -> m.Hello:
    _count(frames, 1, "hello")
    cameras = {}
    for name, entry in _map(header, "c", MAX_IMAGES).items():
        if not isinstance(entry, list) or len(entry) != 3:
            raise CodecError(
                f"hello: camera {name!r}: expected [height, width, encoding], got {_short(entry)}"
            )
        height, width = _size(entry[0], entry[1])
        cameras[name] = m.CameraInfo(height, width, _encoding(entry[2]))
    state = {
        name: _whole(n, f"hello: state {name!r}", 1, 1 << 20)
        for name, n in _map(header, "s", MAX_ARRAYS).items()
    }
    token = _text(header, "y", MAX_NAME_CHARS)
    return m.Hello(_name(header, "r"), _name(header, "k"), cameras, state, token)


def _decode_request(header: Header, frames: Sequence[Frame]) -> m.Request:
    listed, sums = _list(header, "m", MAX_IMAGES), _list(header, "h", MAX_IMAGES)
    _count(frames, 1 + len(listed), "request")
    if len(sums) != len(listed):
        raise CodecError(f"request: expected {len(listed)} checksums of images, got {len(sums)}")
    images: dict[str, EncodedImage] = {}
    for entry, frame, expected in zip(listed, frames[1:], sums, strict=True):
        if not isinstance(entry, list) or len(entry) != 4 or not isinstance(entry[0], str):
            raise CodecError(
                f"request: image: expected [camera, encoding, height, width], got {_short(entry)}"
            )
        name, encoding = entry[0], _encoding(entry[1])
        height, width = _size(entry[2], entry[3])
        if name in images or len(name) > MAX_NAME_CHARS:
            raise CodecError(f"request: camera {_short(name)} stands twice or has too long a name")
        images[name] = EncodedImage(encoding, height, width, _buffer(frame))
        if _image_sum(encoding, frame) != expected:
            raise CodecError(f"request: camera {name!r}: damaged on its way: its checksum is another one")
    return m.Request(
        request_id=_whole(header.get("i"), "request_id", 0, MAX_ID),
        component=_name(header, "c"),
        budget_ms=_number(header, "b", 0.0, 600_000.0),
        prompt=_text(header, "p", MAX_TEXT_CHARS),
        state=_arrays(header, "s"),
        images=images,
    )


def _decode_response(header: Header, frames: Sequence[Frame]) -> m.Response:
    status = _name(header, "s")
    if status not in m.STATUSES:
        raise CodecError(f"response: status: expected one of {', '.join(m.STATUSES)}, got {_short(status)}")
    _count(frames, 2 if status == m.OK else 1, f"response {status}")
    return m.Response(
        request_id=_whole(header.get("i"), "request_id", 0, MAX_ID),
        status=status,
        reason=_text(header, "r", MAX_TEXT_CHARS),
        queue_ms=_number(header, "q", 0.0, 1e9),
        inference_ms=_number(header, "n", 0.0, 1e9),
        batch_size=_whole(header.get("z"), "batch_size", 0, MAX_BATCH),
        output=decode_output(frames[1]) if status == m.OK else None,
    )


def _decode_welcome(header: Header, frames: Sequence[Frame]) -> m.Welcome:
    _count(frames, 1, "welcome")
    entries = _map(header, "f", MAX_BATCH)
    rates = {name: _number(entries, name, 0.0, MAX_RATE_HZ, "welcome: rates") for name in entries}
    lists = _map(header, "g", MAX_BATCH)
    cameras = {component: tuple(_list(lists, component, MAX_IMAGES)) for component in lists}
    if not all(isinstance(camera, str) for names in cameras.values() for camera in names):
        raise CodecError("welcome: cameras: expected names")
    return m.Welcome(_names(header, "m"), rates, cameras, _text(header, "y", MAX_NAME_CHARS))


def _decode_refuse(header: Header, frames: Sequence[Frame]) -> m.Refused:
    _count(frames, 1, "refuse")
    return m.Refused(_name(header, "c"), _text(header, "r", MAX_TEXT_CHARS))


def _decode_health(header: Header, frames: Sequence[Frame]) -> m.HealthReport:
    _count(frames, 1, "health_report")
    if not isinstance(header.get("o"), bool):
        raise CodecError(f"health_report: ready: expected true or false, got {_short(header.get('o'))}")
    queues = {
        name: _whole(n, f"queue {name!r}", 0, MAX_ID) for name, n in _map(header, "q", MAX_BATCH).items()
    }
    robots = _list(header, "r", 1 << 16)
    if not all(isinstance(robot, str) for robot in robots):
        raise CodecError("health_report: robots: expected names")
    return m.HealthReport(header["o"], _names(header, "w"), queues, robots)


def _decode_ready(header: Header, frames: Sequence[Frame]) -> m.WorkerReady:
    _count(frames, 1, "worker_ready")
    images = {}
    for name, entry in _map(header, "i", MAX_IMAGES).items():
        if not isinstance(entry, list) or len(entry) != 2:
            raise CodecError(f"worker_ready: image {name!r}: expected [height, width], got {_short(entry)}")
        images[name] = _size(entry[0], entry[1])
    state = {
        name: _whole(n, f"state {name!r}", 1, 1 << 20) for name, n in _map(header, "s", MAX_ARRAYS).items()
    }
    max_batch = _whole(header.get("b"), "max_batch", 1, MAX_BATCH)
    return m.WorkerReady(_name(header, "w"), _name(header, "m"), max_batch, images, state)


def _decode_execute(header: Header, frames: Sequence[Frame]) -> m.Execute:
    tickets = [_whole(k, "ticket", 0, MAX_ID) for k in _list(header, "k", MAX_BATCH)]
    counts = [_whole(n, "frame count", 1, MAX_IMAGES + 1) for n in _list(header, "n", MAX_BATCH)]
    if len(tickets) != len(counts):
        raise CodecError(f"execute: {len(tickets)} tickets but {len(counts)} frame counts")
    _count(frames, 1 + sum(counts), "execute")
    split, at = [], 1
    for count in counts:
        split.append(frames[at : at + count])
        at += count
    return m.Execute(_whole(header.get("i"), "batch_id", 0, MAX_ID), tickets, split)


def _decode_executed(header: Header, frames: Sequence[Frame]) -> m.Executed:
    tickets = [_whole(k, "ticket", 0, MAX_ID) for k in _list(header, "k", MAX_BATCH)]
    errors = []
    for entry in _list(header, "e", MAX_BATCH):
        if not isinstance(entry, list) or len(entry) != 2 or not all(isinstance(part, str) for part in entry):
            raise CodecError(f"executed: error: expected [status, reason], got {_short(entry)}")
        if entry[0] and entry[0] not in m.STATUSES:
            raise CodecError(
                f"executed: status: expected one of {', '.join(m.STATUSES)}, got {_short(entry[0])}"
            )
        errors.append((entry[0], entry[1]))
    if len(tickets) != len(errors):
        raise CodecError(f"executed: {len(tickets)} tickets but {len(errors)} results")
    _count(frames, 1 + len(tickets), "executed")
    inference_ms = _number(header, "n", 0.0, 1e9)
    return m.Executed(
        _whole(header.get("i"), "batch_id", 0, MAX_ID), tickets, inference_ms, errors, list(frames[1:])
    )


def _bare(kind: type[Any]) -> Callable[[Header, Sequence[Frame]], Any]:
    def decoder(header: Header, frames: Sequence[Frame]) -> Any:
        _count(frames, 1, str(header["t"]))
        return kind()

    return decoder


# -- checked reading of header fields -------------------------------------------------------------------------------


def _pack(value: Mapping[str, Any]) -> bytes:
    """A map as bytes that end with their checksum."""
    content = {key: entry for key, entry in value.items() if key != SUM}
    try:
        # A number of this size takes exactly four bytes, and the last entry of a map is packed last.
        packed: bytes = msgpack.packb({**content, SUM: 0xFFFFFFFF}, use_bin_type=True)[:-SUM_BYTES]
    except (TypeError, ValueError, OverflowError) as error:
        raise CodecError(f"cannot encode: {error}") from None
    return packed + zlib.crc32(packed).to_bytes(SUM_BYTES, "big")


def _check_sum(frame: Frame, content: Mapping[str, Any], what: str) -> None:
    data = _buffer(frame)
    expected = zlib.crc32(data[:-SUM_BYTES])
    if content.get(SUM) != expected or data[-SUM_BYTES:] != expected.to_bytes(SUM_BYTES, "big"):
        raise CodecError(f"{what}: damaged on its way: its checksum is another one")


def _image_sum(encoding: str, data: Frame) -> int:
    """Of compressed images, of which one bit spoils the rest; a raw picture has one wrong pixel then, and is large."""
    return 0 if encoding == "rgb8" else zlib.crc32(_buffer(data))


def _unpack(frame: Frame, what: str, limit: int, entries: int) -> Any:
    """`limit`: bytes of the frame; `entries`: of any list or map in it. msgpack itself ends at 512 levels."""
    data = _buffer(frame)
    if len(data) > limit:
        raise CodecError(f"{what}: expected at most {limit} bytes, got {len(data)}")
    try:
        return msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            max_array_len=entries,
            max_map_len=entries,
            max_ext_len=0,
        )
    # msgpack raises a dozen unrelated types on hostile bytes; all mean the same here.
    except Exception as error:
        raise CodecError(f"{what}: not msgpack: {type(error).__name__}: {str(error)[:80]}") from None


def _buffer(frame: Frame) -> memoryview:
    view = memoryview(frame)
    return view if view.ndim == 1 and view.itemsize == 1 else view.cast("B")


def _count(frames: Sequence[Frame], expected: int, what: str) -> None:
    if len(frames) != expected:
        raise CodecError(f"{what}: expected {expected} frames, got {len(frames)}")


def _short(value: Any) -> str:
    """A value that somebody sent, as an error shows it; never the whole of a large one."""
    text = _REPR.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _name(header: Header, key: str) -> str:
    value = header.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARS or not value.isprintable():
        raise CodecError(
            f"{header.get('t')}: {key}: expected 1 to {MAX_NAME_CHARS} printable characters, got {_short(value)}"
        )
    return value


def _text(header: Header, key: str, limit: int) -> str:
    value = header.get(key, "")
    if not isinstance(value, str) or len(value) > limit:
        raise CodecError(f"{key}: expected text of at most {limit} characters, got {_short(value)}")
    return value


def _whole(value: Any, what: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise CodecError(f"{what}: expected a whole number from {least} to {most}, got {_short(value)}")
    return value


def _number(header: Header, key: str, least: float, most: float, what: str = "") -> float:
    value = header.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise CodecError(
            f"{what or header['t']}: {key}: expected a number from {least:g} to {most:g}, got {_short(value)}"
        )
    return float(value)


def _finite(what: str, value: float) -> float:
    if not math.isfinite(value):
        raise CodecError(f"{what}: must be finite, got {value}")
    return float(value)


def _map(header: Header, key: str, limit: int) -> dict[str, Any]:
    value = header.get(key, {})
    if not isinstance(value, dict) or len(value) > limit:
        raise CodecError(f"{key}: expected a map of at most {limit} entries, got {_short(value)}")
    for name in value:
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
            raise CodecError(f"{key}: expected names of 1 to {MAX_NAME_CHARS} characters, got {_short(name)}")
    return value


def _names(header: Header, key: str) -> dict[str, str]:
    value = _map(header, key, MAX_BATCH)
    for name, entry in value.items():
        if not isinstance(entry, str):
            raise CodecError(f"{key}: {name}: expected text, got {_short(entry)}")
    return value


def _list(header: Header, key: str, limit: int) -> list[Any]:
    value = header.get(key)
    if not isinstance(value, list) or len(value) > limit:
        raise CodecError(f"{header.get('t')}: {key}: expected a list of at most {limit}, got {_short(value)}")
    return value


def _encoding(value: Any) -> str:
    if value not in ENCODINGS:
        raise CodecError(f"image encoding: expected one of {', '.join(ENCODINGS)}, got {_short(value)}")
    return str(value)


def _size(height: Any, width: Any) -> tuple[int, int]:
    height, width = _whole(height, "image height", 1, 1 << 20), _whole(width, "image width", 1, 1 << 20)
    check_size(height, width)
    return height, width


# -- arrays ---------------------------------------------------------------------------------------------------------


def _pack_arrays(arrays: Mapping[str, m.Array]) -> dict[str, list[Any]]:
    packed = {}
    for name, array in arrays.items():
        dtype = array.dtype.newbyteorder("<").str
        if dtype not in DTYPES:
            raise CodecError(f"array {name!r}: dtype must be one of {', '.join(DTYPES)}, got {array.dtype}")
        if array.ndim > MAX_NDIM or array.nbytes > MAX_ARRAY_BYTES:
            raise CodecError(
                f"array {name!r}: at most {MAX_NDIM} dimensions and {MAX_ARRAY_BYTES} bytes, got {array.shape}"
            )
        _check_finite(name, array)
        packed[name] = [dtype, list(array.shape), array.astype(dtype, copy=False).tobytes()]
    return packed


def _arrays(header: Header, key: str) -> dict[str, m.Array]:
    return {name: _array(name, entry) for name, entry in _map(header, key, MAX_ARRAYS).items()}


def _array(name: str, entry: Any) -> m.Array:
    if not isinstance(entry, list) or len(entry) != 3:
        raise CodecError(f"array {name!r}: expected [dtype, shape, bytes], got {_short(entry)}")
    dtype, shape, data = entry
    if dtype not in DTYPES:
        raise CodecError(f"array {name!r}: dtype must be one of {', '.join(DTYPES)}, got {_short(dtype)}")
    if not isinstance(shape, list) or len(shape) > MAX_NDIM or not isinstance(data, bytes):
        raise CodecError(f"array {name!r}: expected a shape of at most {MAX_NDIM} dimensions and bytes")
    sides = [_whole(side, f"array {name!r}: shape", 0, MAX_ARRAY_BYTES) for side in shape]
    expected = math.prod(sides) * np.dtype(dtype).itemsize
    if expected != len(data) or expected > MAX_ARRAY_BYTES:
        raise CodecError(f"array {name!r}: {dtype} {sides} needs {expected} bytes, got {len(data)}")
    array = np.frombuffer(data, dtype).reshape(sides)
    _check_finite(name, array)
    return array


def _check_finite(name: str, array: m.Array) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise CodecError(f"array {name!r}: holds NaN or infinity; every number must be finite")


_ENCODERS: dict[type[Any], tuple[str, Callable[[Any], tuple[Header, list[Frame]]]]] = {
    m.Hello: ("hello", _encode_hello),
    m.Welcome: ("welcome", _encode_welcome),
    m.Refused: ("refuse", lambda message: ({"c": message.cause, "r": message.reason}, [])),
    m.Request: ("request", _encode_request),
    m.Response: ("response", _encode_response),
    m.Bye: ("bye", lambda _: ({}, [])),
    m.HealthQuery: ("health_query", lambda _: ({}, [])),
    m.HealthReport: ("health_report", _encode_health),
    m.WorkerReady: ("worker_ready", _encode_ready),
    m.Execute: ("execute", _encode_execute),
    m.Executed: ("executed", _encode_executed),
    m.Drain: ("drain", lambda _: ({}, [])),
}

_DECODERS: dict[str, Callable[[Header, Sequence[Frame]], Any]] = {
    "hello": _decode_hello,
    "welcome": _decode_welcome,
    "refuse": _decode_refuse,
    "request": _decode_request,
    "response": _decode_response,
    "bye": _bare(m.Bye),
    "health_query": _bare(m.HealthQuery),
    "health_report": _decode_health,
    "worker_ready": _decode_ready,
    "execute": _decode_execute,
    "executed": _decode_executed,
    "drain": _bare(m.Drain),
}

# What robots send, with every key that it may have beside "v" (version), "t" (type) and "#" (checksum).
_ROBOT_KEYS = {
    name: frozenset({"v", "t", SUM, *keys})
    for name, keys in {"hello": "rkcsy", "request": "icbpsmh", "bye": "", "health_query": ""}.items()
}
