"""ROS 2 messages as a bag holds them (CDR bytes, and the text of their definition), read without ROS.

A server has no rclpy, and a recording may hold messages that are not installed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

SEPARATOR = re.compile(r"^=+\s*$", re.MULTILINE)
# type -> (format of `struct`, bytes)
NUMBERS: Mapping[str, tuple[str, int]] = {
    "bool": ("?", 1),
    "byte": ("B", 1),
    "char": ("B", 1),
    "int8": ("b", 1),
    "uint8": ("B", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "uint64": ("Q", 8),
    "float32": ("f", 4),
    "float64": ("d", 8),
}
TEXT = "string"
MAX_NESTING = 32


class CdrError(ValueError):
    """Bytes are not the message that the definition describes, or it has a type that is not read."""


@dataclass(frozen=True)
class Field:
    """One field: `count` None is one value, 0 a sequence, more an array of that length."""

    name: str
    kind: str
    count: int | None


@cache
def fields_of(kind: str, text: str) -> Mapping[str, tuple[Field, ...]]:
    """Type -> fields, of "package/msg/Name" and every message in it. `text`: a schema as ros2msg has it."""
    first, *rest = SEPARATOR.split(text)
    known = {_short(kind): _fields(first, _short(kind).split("/")[0])}
    for part in rest:
        head, _, body = part.lstrip().partition("\n")
        name = _short(head.removeprefix("MSG:").strip())
        known[name] = _fields(body, name.split("/")[0])
    return known


def _short(kind: str) -> str:
    """ "package/msg/Name" -> "package/Name"."""
    parts = kind.split("/")
    return f"{parts[0]}/{parts[-1]}"


def _fields(text: str, package: str) -> tuple[Field, ...]:
    found = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if len(words) < 2 or "=" in re.sub(r"<=", "", line.split("#")[0].split('"')[0]):
            continue  # empty, or a constant
        kind, _, length = words[0].partition("[")
        kind = re.sub(r"<=\d+$", "", kind)
        count = None
        if length:
            inside = length.rstrip("]")
            count = int(inside) if inside.isdigit() else 0
        if kind not in NUMBERS and kind != TEXT:
            parts = kind.split("/")
            kind = f"{parts[0] if len(parts) > 1 else package}/{parts[-1]}"
        found.append(Field(words[1], kind, count))
    return tuple(found)


def decode(kind: str, text: str, data: bytes) -> dict[str, Any]:
    """A message as plain values: numbers, texts, arrays of NumPy, bytes for uint8 sequences, maps and lists of maps.

    Raises `CdrError`.
    """
    if len(data) < 4 or data[1] not in (0, 1):
        raise CdrError(f"{kind}: not CDR: it begins with {data[:4]!r}")
    reader = _Reader(data, "<" if data[1] == 1 else ">", fields_of(kind, text))
    try:
        return reader.message(_short(kind), 0)
    except (struct.error, KeyError, UnicodeDecodeError, ValueError) as error:
        raise CdrError(f"{kind}: {error}") from None


class _Reader:
    def __init__(self, data: bytes, order: Literal["<", ">"], known: Mapping[str, tuple[Field, ...]]) -> None:
        self._data, self._order, self._known = data, order, known
        self._at = 4  # alignment counts from after the header, which is 4 bytes

    def message(self, kind: str, depth: int) -> dict[str, Any]:
        if depth > MAX_NESTING:
            raise CdrError("messages within messages without end")
        fields = self._known[kind]
        if not fields:  # an empty message is one byte
            self._at += 1
        return {field.name: self._value(field, depth) for field in fields}

    def _value(self, field: Field, depth: int) -> Any:
        if field.count is None:
            return self._one(field.kind, depth)
        count = field.count or self._number("uint32")
        if field.kind in NUMBERS:
            return self._array(field.kind, count)
        if count > len(self._data):
            raise CdrError(f"{field.name}: {count} values in {len(self._data)} bytes")
        return [self._one(field.kind, depth) for _ in range(count)]

    def _one(self, kind: str, depth: int) -> Any:
        if kind in NUMBERS:
            return self._number(kind)
        if kind == TEXT:
            length = self._number("uint32")
            return self._take(length)[:-1].decode()
        return self.message(kind, depth + 1)

    def _number(self, kind: str) -> Any:
        form, size = NUMBERS[kind]
        self._align(size)
        return struct.unpack(self._order + form, self._take(size))[0]

    def _array(self, kind: str, count: int) -> Any:
        form, size = NUMBERS[kind]
        if not count:
            return b"" if kind == "uint8" else np.zeros(0, np.dtype(form))
        self._align(size)
        data = self._take(count * size)
        return data if kind == "uint8" else np.frombuffer(data, np.dtype(form).newbyteorder(self._order))

    def _align(self, size: int) -> None:
        self._at += -(self._at - 4) % size

    def _take(self, count: int) -> bytes:
        data = self._data[self._at : self._at + count]
        if len(data) != count:
            raise CdrError(f"{count} bytes expected, {len(data)} are left")
        self._at += count
        return data
