"""Checked reading of a message's header: every field has the expected type and is within its bounds.

Each function returns the field as it is used, or raises `CodecError` that says what was expected and what came.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.wire.images import ENCODINGS, check_size
from rosa_contract.wire.messages import Array
from rosa_contract.wire.packing import Frame, short, unpack_array
from rosa_contract.wire.progress import MAX_ACTS_MS, MAX_KIND_CHARS, Progress

Header = dict[str, Any]

MAX_NAME_CHARS = 128
MAX_TEXT_CHARS = 1 << 16
MAX_IMAGES = 16
MAX_ARRAYS = 64
MAX_BATCH = 4096
MAX_ID = (1 << 63) - 1
MAX_LENGTH = 1 << 20  # of an image's side, px, or of a state, in values


def check_count(frames: Sequence[Frame], expected: int, what: str) -> None:
    if len(frames) != expected:
        raise CodecError("wrong_frame_count", f"{what}: expected {expected} frames, got {len(frames)}")


def name(header: Header, key: str) -> str:
    value = header.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARS or not value.isprintable():
        words = f"expected 1 to {MAX_NAME_CHARS} printable characters, got {short(value)}"
        raise CodecError("bad_field", f"{header.get('t')}: {key}: {words}")
    return value


def text(header: Header, key: str, limit: int = MAX_TEXT_CHARS) -> str:
    value = header.get(key, "")
    if not isinstance(value, str) or len(value) > limit:
        raise CodecError(
            "bad_field", f"{key}: expected text of at most {limit} characters, got {short(value)}"
        )
    return value


def whole(value: Any, what: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise CodecError(
            "bad_field", f"{what}: expected a whole number from {least} to {most}, got {short(value)}"
        )
    return value


def number(header: Header, key: str, least: float, most: float, what: str = "") -> float:
    value = header.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        words = f"expected a number from {least:g} to {most:g}, got {short(value)}"
        raise CodecError("bad_field", f"{what or header['t']}: {key}: {words}")
    return float(value)


def finite(what: str, value: float) -> float:
    if not math.isfinite(value):
        raise CodecError("not_finite", f"{what}: must be finite, got {value}")
    return float(value)


def mapping(header: Header, key: str, limit: int) -> dict[str, Any]:
    value = header.get(key, {})
    if not isinstance(value, dict) or len(value) > limit:
        raise CodecError("bad_field", f"{key}: expected a map of at most {limit} entries, got {short(value)}")
    for entry in value:
        if not isinstance(entry, str) or not 0 < len(entry) <= MAX_NAME_CHARS:
            words = f"expected names of 1 to {MAX_NAME_CHARS} characters, got {short(entry)}"
            raise CodecError("bad_field", f"{key}: {words}")
    return value


def flag(header: Header, key: str, what: str) -> bool:
    """True or false; false where nothing is said."""
    value = header.get(key, False)
    if not isinstance(value, bool):
        raise CodecError("bad_field", f"{what}: expected true or false, got {short(value)}")
    return value


def names(header: Header, key: str) -> dict[str, str]:
    """Name -> text."""
    value = mapping(header, key, MAX_BATCH)
    for entry, content in value.items():
        if not isinstance(content, str):
            raise CodecError("bad_field", f"{key}: {entry}: expected text, got {short(content)}")
    return value


def lengths(header: Header, key: str, what: str) -> dict[str, int]:
    """Name -> number of values."""
    entries = mapping(header, key, MAX_ARRAYS)
    return {entry: whole(count, f"{what}: {entry!r}", 1, MAX_LENGTH) for entry, count in entries.items()}


def sequence(header: Header, key: str, limit: int) -> list[Any]:
    value = header.get(key)
    if not isinstance(value, list) or len(value) > limit:
        words = f"expected a list of at most {limit}, got {short(value)}"
        raise CodecError("bad_field", f"{header.get('t')}: {key}: {words}")
    return value


def texts(header: Header, key: str) -> tuple[str, ...]:
    """Names in a list."""
    entries = sequence(header, key, MAX_ARRAYS)
    for entry in entries:
        if not isinstance(entry, str) or not 0 < len(entry) <= MAX_NAME_CHARS:
            words = f"expected names of 1 to {MAX_NAME_CHARS} characters, got {short(entry)}"
            raise CodecError("bad_field", f"{header.get('t')}: {key}: {words}")
    return tuple(entries)


def encoding(value: Any) -> str:
    if value not in ENCODINGS:
        words = f"image encoding: expected one of {', '.join(ENCODINGS)}, got {short(value)}"
        raise CodecError("bad_field", words)
    return str(value)


def size(height: Any, width: Any) -> tuple[int, int]:
    """(height, width), px."""
    height, width = whole(height, "image height", 1, MAX_LENGTH), whole(width, "image width", 1, MAX_LENGTH)
    check_size(height, width)
    return height, width


def arrays(header: Header, key: str) -> dict[str, Array]:
    return {
        entry: unpack_array(entry, content) for entry, content in mapping(header, key, MAX_ARRAYS).items()
    }


def progress(entry: Any) -> Progress:
    """Where a robot says that it is in its task. The gateway reads it from a request's header."""
    what = "request: progress"
    if not isinstance(entry, list) or len(entry) != 4:
        raise CodecError("bad_field", f"{what}: expected [task, round, acts_ms, kind], got {short(entry)}")
    told = {"t": "request", "acts_ms": entry[2], "kind": entry[3]}
    return Progress(
        whole(entry[0], f"{what}: task", 0, MAX_ID),
        whole(entry[1], f"{what}: round", 0, MAX_ID),
        number(told, "acts_ms", 0.0, MAX_ACTS_MS, what),
        text(told, "kind", MAX_KIND_CHARS),
    )
