"""msgpack with numpy arrays, in the three ways in which policy clients write them. Nothing is ever unpickled.

| dialect | an array is a map with | who |
|---|---|---|
| openpi | `__ndarray__`, `data`, `dtype`, `shape` (bytes keys); scalars `__npgeneric__` | openpi-client |
| npy | `__ndarray_class__`, `as_npy`: a file of `numpy.save` | GR00T N1.5, N1.6 |
| nd | `nd`, `type`, `kind`, `shape`, `data` (bytes keys) | msgpack-numpy: GR00T N1.7, vLLM-Omni |

Whatever the bytes, decoding raises nothing but `WireError`, and takes no more memory than a few times their length.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar

import msgpack
import numpy as np
import numpy.typing as npt

from rosa_contract.errors import CausedError

Array = npt.NDArray[Any]
MAX_NDIM = 8
MAX_ENTRIES = 4096  # of any list or map
MAX_TEXT_BYTES = 64 << 10
MAX_NPY_HEADER = 1024
KINDS = "fiub"  # floats, signed and unsigned integers, truth values


class Dialect(Enum):
    """How arrays are written."""

    OPENPI = "openpi"
    NPY = "npy"
    ND = "nd"


class WireError(CausedError):
    """What a client sent cannot be read, or is not what its protocol says."""

    CAUSES: ClassVar = {
        "not_msgpack": "the bytes are not msgpack",
        "bad_array": "an array with a type, a shape or a number of bytes that it must not have",
        "bad_request": "a message of another form than the protocol's",
    }


def unpack(data: bytes) -> tuple[Any, set[Dialect]]:
    """What a message says, and the dialects of its arrays. Raises `WireError`."""
    seen: set[Dialect] = set()
    failed: list[WireError] = []

    def hook(entry: dict[Any, Any]) -> Any:
        try:
            return _decoded(entry, seen)
        except WireError as error:
            failed.append(error)
            raise

    try:
        content = msgpack.unpackb(
            data,
            object_hook=hook,
            raw=False,
            strict_map_key=True,  # text or bytes
            max_array_len=MAX_ENTRIES,
            max_map_len=MAX_ENTRIES,
            max_str_len=MAX_TEXT_BYTES,
            max_ext_len=0,
        )
    except Exception as error:  # msgpack raises a dozen unrelated types on hostile bytes
        if failed:
            raise failed[0] from None
        words = f"{type(error).__name__}: {str(error)[:80]}"
        raise WireError("not_msgpack", f"not msgpack: {words}") from None
    return content, seen


def pack(content: Any, dialect: Dialect) -> bytes:
    """A message with its arrays in this dialect."""
    packed: bytes = msgpack.packb(content, default=_ENCODERS[dialect])
    return packed


def _decoded(entry: dict[Any, Any], seen: set[Dialect]) -> Any:
    if b"__ndarray__" in entry:
        seen.add(Dialect.OPENPI)
        return _array(entry.get(b"data"), entry.get(b"dtype"), entry.get(b"shape"))
    if b"__npgeneric__" in entry:
        seen.add(Dialect.OPENPI)
        return _scalar(entry.get(b"data"))
    if "__ndarray_class__" in entry:
        seen.add(Dialect.NPY)
        return _npy(entry.get("as_npy"))
    if b"nd" in entry:
        seen.add(Dialect.ND)
        if entry.get(b"kind") not in (b"", "", None):  # O is pickle, V a structure
            raise WireError("bad_array", f"array: kind must be empty, got {entry.get(b'kind')!r:.40}")
        if entry[b"nd"] is not True:
            return _array(entry.get(b"data"), entry.get(b"type"), []).item()
        return _array(entry.get(b"data"), entry.get(b"type"), entry.get(b"shape"))
    return entry


def _dtype(told: Any) -> np.dtype[Any]:
    if isinstance(told, bytes):
        told = told.decode("ascii", "replace")
    try:
        # Not every text: "O", "V8", "f4,f4" and the like would be types too.
        plain = isinstance(told, str) and len(told) <= 4 and told.lstrip("<>|=")[:1] in set(KINDS)
        dtype: np.dtype[Any] | None = np.dtype(told) if plain else None
    except (TypeError, ValueError):
        dtype = None
    if dtype is None or dtype.kind not in KINDS or dtype.itemsize > 8:
        raise WireError("bad_array", f"array: expected plain numbers, got dtype {told!r:.40}")
    return dtype


def _array(data: Any, told: Any, shape: Any) -> Array:
    dtype = _dtype(told)
    if not isinstance(shape, list | tuple) or len(shape) > MAX_NDIM:
        raise WireError(
            "bad_array", f"array: expected a shape of at most {MAX_NDIM} sides, got {shape!r:.40}"
        )
    if any(type(side) is not int or side < 0 for side in shape):
        raise WireError("bad_array", f"array: expected whole sides, got {shape!r:.40}")
    needed = math.prod(shape) * dtype.itemsize
    if not isinstance(data, bytes) or len(data) != needed:
        got = f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__
        raise WireError("bad_array", f"array: {dtype} {tuple(shape)!r:.40} needs {needed} bytes, got {got}")
    return np.frombuffer(data, dtype).reshape(shape)


def _scalar(data: Any) -> Any:
    if not isinstance(data, bool | int | float | str):
        raise WireError("bad_array", f"scalar: expected a number or text, got {type(data).__name__}")
    return data


def _npy(data: Any) -> Array:
    """As `numpy.load`, which would also take archives and pickles, and make room for a shape before there are bytes."""
    if not isinstance(data, bytes):
        raise WireError("bad_array", f"array: expected the bytes of an .npy file, got {type(data).__name__}")
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read: Callable[..., Any] = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(file, max_header_size=MAX_NPY_HEADER)
    except Exception as error:  # whatever the parser of the header makes of hostile bytes
        raise WireError("bad_array", f"array: not an .npy file: {str(error)[:80]}") from None
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        raise WireError("bad_array", f"array: expected plain numbers, got dtype {str(dtype)[:40]}")
    flat = _array(data[file.tell() :], dtype.str, list(shape)).reshape(-1)
    return flat.reshape(shape, order="F" if fortran else "C")


def _openpi(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {
            b"__ndarray__": True,
            b"data": value.tobytes(),
            b"dtype": value.dtype.str,
            b"shape": value.shape,
        }
    return value.item() if isinstance(value, np.generic) else value


def _as_npy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        file = io.BytesIO()
        np.save(file, value, allow_pickle=False)
        return {"__ndarray_class__": True, "as_npy": file.getvalue()}
    return value.item() if isinstance(value, np.generic) else value


def _nd(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        plain = {b"nd": True, b"type": value.dtype.str, b"kind": b"", b"shape": value.shape}
        return {**plain, b"data": value.tobytes()}
    return value.item() if isinstance(value, np.generic) else value


_ENCODERS: Mapping[Dialect, Callable[[Any], Any]] = {
    Dialect.OPENPI: _openpi,
    Dialect.NPY: _as_npy,
    Dialect.ND: _nd,
}
