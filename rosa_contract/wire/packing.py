"""Bytes that can be trusted: msgpack maps that end with their checksum, and arrays of plain dtypes.

Arrays travel as [dtype, shape, bytes]; non-finite numbers are refused at both ends. The checksum is CRC-32: TCP's own
is weak, and a flipped bit in a joint angle would look like another angle. It does not protect against attackers; CURVE
does.
"""

from __future__ import annotations

import math
import reprlib
import zlib
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from rosa_contract.errors import CodecError

Array = npt.NDArray[Any]
Frame = Any  # bytes, memoryview or zmq.Frame: anything with the buffer interface

MAX_HEADER_BYTES = 1 << 20
MAX_ARRAY_BYTES = 1 << 24
MAX_NDIM = 4
DTYPES = ("<f4", "<f8", "<f2", "<i4", "<i8", "|u1", "|b1")
_WIRE_DTYPES = {np.dtype(name): name for name in DTYPES} | {
    np.dtype(name).newbyteorder(">"): name for name in DTYPES
}  # both orders of a machine
SUM = "#"  # the last entry of every packed map: the CRC-32 of all bytes before the number itself
SUM_BYTES = 4
# Packers that nobody uses now: to make one takes as long as to pack a header. A thread that finds none makes its own.
_PACKERS: list[Any] = []
MAX_KEPT_BYTES = 64 << 10  # a packer keeps the memory of the largest map that it has packed
_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother = 3, 60, 60


def pack(value: Mapping[str, Any]) -> bytes:
    """A map as bytes that end with their checksum."""
    content = dict(value)
    content.pop(SUM, None)
    return sealed(content)


def sealed(content: dict[str, Any]) -> bytes:
    """As `pack`, of a map without checksum that nobody else uses."""
    # A number of this size takes exactly four bytes, and the last entry is packed last.
    content[SUM] = 0xFFFFFFFF
    try:
        body = packed(content)[:-SUM_BYTES]
    except (TypeError, ValueError, OverflowError) as error:
        raise CodecError("bad_field", f"cannot encode: {error}") from None
    return body + zlib.crc32(body).to_bytes(SUM_BYTES, "big")


def packed(value: Any) -> bytes:
    """A value in msgpack, by a packer that is kept. Raises what msgpack does."""
    try:
        packer = _PACKERS.pop()
    except IndexError:
        packer = msgpack.Packer(use_bin_type=True)
    made: bytes = packer.pack(value)
    if len(made) <= MAX_KEPT_BYTES:
        _PACKERS.append(packer)
    return made


def unpack(frame: Frame, what: str, max_bytes: int, max_entries: int) -> dict[str, Any]:
    """The map in a frame of at most `max_bytes`, with at most `max_entries` in any list or map inside.

    msgpack itself refuses more than 512 levels. The checksum is not compared here; `check_sum` does that.
    """
    data = buffer(frame)
    if len(data) > max_bytes:
        raise CodecError("too_large", f"{what}: expected at most {max_bytes} bytes, got {len(data)}")
    try:
        content = msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            max_array_len=max_entries,
            max_map_len=max_entries,
            max_ext_len=0,
        )
    except (
        Exception
    ) as error:  # msgpack raises a dozen unrelated types on hostile bytes; all mean the same here
        words = f"{what}: not msgpack: {type(error).__name__}: {str(error)[:80]}"
        raise CodecError("not_msgpack", words) from None
    if not isinstance(content, dict):
        raise CodecError("bad_field", f"{what}: expected a map, got {type(content).__name__}")
    return content


def check_sum(frame: Frame, content: Mapping[str, Any], what: str) -> None:
    """Raise `CodecError` unless the frame that `content` was read from ends with the checksum of its bytes."""
    data = buffer(frame)
    expected = zlib.crc32(data[:-SUM_BYTES])
    if content.get(SUM) != expected or data[-SUM_BYTES:] != expected.to_bytes(SUM_BYTES, "big"):
        raise CodecError("checksum_mismatch", f"{what}: checksum mismatch")


def image_sum(encoding: str, data: Frame) -> int:
    """The checksum of a compressed image, which one flipped bit would spoil. 0 for a raw image: it is large, and one
    flipped bit changes one pixel.
    """
    return 0 if encoding == "rgb8" else zlib.crc32(buffer(data))


def buffer(frame: Frame) -> memoryview:
    """The bytes of a frame, which are not copied."""
    view = frame if type(frame) is memoryview else memoryview(frame)
    return view if view.ndim == 1 and view.itemsize == 1 else view.cast("B")


def short(value: Any) -> str:
    """A value that a peer sent, as an error shows it: at most 60 characters, and never the whole of a large one."""
    text = _REPR.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# -- arrays ---------------------------------------------------------------------------------------------------------


def pack_arrays(arrays: Mapping[str, Array]) -> dict[str, list[Any]]:
    packed = {}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray | np.generic):
            kind = type(array).__name__
            raise CodecError("bad_array", f"array {name!r}: expected a numpy array, got {kind}")
        dtype = _WIRE_DTYPES.get(array.dtype)
        if dtype is None:
            words = f"array {name!r}: dtype must be one of {', '.join(DTYPES)}, got {array.dtype}"
            raise CodecError("bad_array", words)
        if array.ndim > MAX_NDIM or array.nbytes > MAX_ARRAY_BYTES:
            limit = f"at most {MAX_NDIM} dimensions and {MAX_ARRAY_BYTES} bytes"
            raise CodecError("too_large", f"array {name!r}: {limit}, got {array.shape}")
        check_finite(name, array)
        packed[name] = [dtype, list(array.shape), array.astype(dtype, copy=False).tobytes()]
    return packed


def unpack_array(name: str, entry: Any) -> Array:
    """An array from [dtype, shape, bytes]."""
    if not isinstance(entry, list) or len(entry) != 3:
        raise CodecError("bad_array", f"array {name!r}: expected [dtype, shape, bytes], got {short(entry)}")
    dtype, shape, data = entry
    if dtype not in DTYPES:
        words = f"array {name!r}: dtype must be one of {', '.join(DTYPES)}, got {short(dtype)}"
        raise CodecError("bad_array", words)
    if not isinstance(shape, list) or len(shape) > MAX_NDIM or not isinstance(data, bytes):
        words = f"array {name!r}: expected a shape of at most {MAX_NDIM} dimensions and bytes"
        raise CodecError("bad_array", words)
    for side in shape:
        if not isinstance(side, int) or isinstance(side, bool) or not 0 <= side <= MAX_ARRAY_BYTES:
            words = f"array {name!r}: shape: expected whole numbers from 0 to {MAX_ARRAY_BYTES}, got {short(shape)}"
            raise CodecError("bad_array", words)
    expected = math.prod(shape) * np.dtype(dtype).itemsize
    if expected != len(data) or expected > MAX_ARRAY_BYTES:
        raise CodecError(
            "bad_array", f"array {name!r}: {dtype} {shape} needs {expected} bytes, got {len(data)}"
        )
    array = np.frombuffer(data, dtype).reshape(shape)
    check_finite(name, array)
    return array


def check_finite(name: str, array: Array) -> None:
    # Looked for as a byte: `all()` takes longer than the whole check of a joint state.
    if array.dtype.kind == "f" and b"\0" in np.isfinite(array).tobytes():
        raise CodecError("not_finite", f"array {name!r}: holds NaN or infinity; every number must be finite")
