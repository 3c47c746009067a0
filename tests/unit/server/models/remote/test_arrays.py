"""Arrays in three dialects, as their own libraries write them; and nothing that could be more than numbers."""

from __future__ import annotations

import contextlib
import io
import pickle
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpi_client import msgpack_numpy

from rosa_server.models.remote.arrays import Dialect, WireError, pack, unpack

ARRAYS = [
    np.arange(24, dtype=np.uint8).reshape(2, 4, 3),
    np.array([1.5, -2.0], np.float32),
    np.array([[1, 2]], ">i4"),
    np.zeros((0, 3)),
    np.array(True),
]


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_what_is_packed_is_unpacked(dialect: Dialect, array: np.ndarray[Any, Any]) -> None:
    content, seen = unpack(pack({"a": {"b": [array]}, "t": "x"}, dialect))
    (got,) = content["a"]["b"]
    assert seen == {dialect} and content["t"] == "x"
    assert got.dtype == array.dtype and got.shape == array.shape and np.array_equal(got, array)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_openpis_own_library_agrees(array: np.ndarray[Any, Any]) -> None:
    theirs = msgpack_numpy.packb({"a": array, "n": np.float32(0.5)})
    content, _ = unpack(theirs)
    assert np.array_equal(content["a"], array) and content["n"] == 0.5
    back = msgpack_numpy.unpackb(pack({"a": array}, Dialect.OPENPI))
    assert np.array_equal(back["a"], array) and back["a"].dtype == array.dtype


def test_fortran_order_of_an_npy_file_is_kept() -> None:
    file = io.BytesIO()
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.save(file, array)
    content, _ = unpack(msgpack.packb({"a": {"__ndarray_class__": True, "as_npy": file.getvalue()}}))
    assert np.array_equal(content["a"], array)


def npy(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("it was unpickled",)


HOSTILE = {
    "object array, npy": {"__ndarray_class__": True, "as_npy": npy(np.array([Bomb()], object))},
    "pickle, npy": {"__ndarray_class__": True, "as_npy": pickle.dumps(Bomb())},
    "archive, npy": {"__ndarray_class__": True, "as_npy": b"PK\x03\x04" + bytes(100)},
    "text, npy": {"__ndarray_class__": True, "as_npy": "x"},
    "huge shape, npy": {
        "__ndarray_class__": True,
        "as_npy": npy(np.zeros(1)).replace(b"(1,), }        ", b"(1" + b"0" * 9 + b",),}"),
    },
    "structure, npy": {"__ndarray_class__": True, "as_npy": npy(np.zeros(1, [("a", "f4")]))},
    "kind O, nd": {b"nd": True, b"type": "|O", b"kind": b"O", b"shape": [1], b"data": pickle.dumps([Bomb()])},
    "kind V, nd": {b"nd": True, b"type": [["a", "<f4"]], b"kind": b"V", b"shape": [1], b"data": bytes(4)},
    "dtype O, nd": {b"nd": True, b"type": "|O", b"kind": b"", b"shape": [1], b"data": bytes(8)},
    "dtype O, openpi": {b"__ndarray__": True, b"dtype": "|O", b"shape": [1], b"data": bytes(8)},
    "complex": {b"__ndarray__": True, b"dtype": "<c16", b"shape": [1], b"data": bytes(16)},
    "two types": {b"__ndarray__": True, b"dtype": "f4,O", b"shape": [1], b"data": bytes(12)},
    "negative": {b"__ndarray__": True, b"dtype": "<f4", b"shape": [-1, -1], b"data": bytes(4)},
    "overflow": {b"__ndarray__": True, b"dtype": "<f4", b"shape": [1 << 40, 1 << 40], b"data": bytes(4)},
    "truth as side": {b"__ndarray__": True, b"dtype": "<f4", b"shape": [True], b"data": bytes(4)},
    "many sides": {b"__ndarray__": True, b"dtype": "<f4", b"shape": [1] * 40, b"data": bytes(4)},
    "no bytes": {b"__ndarray__": True, b"dtype": "<f4", b"shape": [1]},
    "scalar of a list": {b"__npgeneric__": True, b"dtype": "<f4", b"data": [1]},
}


@pytest.mark.parametrize("entry", HOSTILE.values(), ids=HOSTILE)
def test_an_array_that_is_not_plain_numbers_is_refused(entry: dict[Any, Any]) -> None:
    with pytest.raises(WireError) as error:
        unpack(msgpack.packb({"a": entry}))
    assert error.value.cause == "bad_array"


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x81", msgpack.packb({1: 2}), msgpack.packb([[]] * 5000), msgpack.packb(msgpack.ExtType(1, b"x")),
     b"\x91" * 600],
)  # fmt: skip
def test_what_is_not_their_msgpack_is_refused(data: bytes) -> None:
    with pytest.raises(WireError) as error:
        unpack(data)
    assert error.value.cause == "not_msgpack"


@given(st.binary(max_size=200), st.integers(0, 300), st.sampled_from(list(Dialect)))
@settings(max_examples=300)
def test_damaged_messages_raise_nothing_else(noise: bytes, at: int, dialect: Dialect) -> None:
    whole = pack({"image": ARRAYS[0], "state": ARRAYS[1], "prompt": "x"}, dialect)
    for data in (noise, whole[: at % len(whole)] + noise + whole[at % len(whole) + len(noise) :]):
        with contextlib.suppress(WireError):
            unpack(data)
