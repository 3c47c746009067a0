"""What those who watch a gateway say to it, and how it answers: the dashboard, and `rosa` commands on its machine.

Its news are declared where they are made (`rosa_server/serving/watching/hub.py`). They have the version of the wire,
because robots' reports are handed on as they came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rosa_contract.errors import CodecError, VersionError
from rosa_contract.wire.messages import SCHEMA_VERSION
from rosa_contract.wire.packing import Frame, check_sum, pack, unpack
from rosa_contract.wire.rules import FLAG, ID, NAME, SHORT_TEXT, TEXT, InFrames, declared
from rosa_contract.wire.schema import map_writer, values_reader
from rosa_contract.wire.status import WORDS

MAX_ASK_BYTES = 4096
MAX_ANSWER_BYTES = 1 << 18
WATCHER = InFrames("not sent: ZeroMQ's identity of the connection")


@dataclass(frozen=True)
class Watch:
    """A watcher is present. Sent every second."""

    watcher: bytes = declared(WATCHER, "the watcher")


@dataclass(frozen=True)
class Asked:
    """An operator's decision about a robot, sent by a watcher."""

    watcher: bytes = declared(WATCHER, "the watcher")
    number: int = declared(ID, "number chosen by the watcher, repeated in the answer")
    robot: str = declared(NAME, "robot name")
    alert_id: int = declared(ID, "alert number; 0: an emergency stop or its release")
    choice: str = declared(NAME, "the choice made")
    decided_by: str = declared(NAME, "who decided")
    why: str = declared(WORDS, "the reason given", "")


@dataclass(frozen=True)
class Order:
    """An operator's order to the server itself."""

    watcher: bytes = declared(WATCHER, "the watcher")
    number: int = declared(ID, "number chosen by the watcher, repeated in the answer")
    what: str = declared(NAME, "what to do")
    target: str = declared(NAME, "server of the schedule, worker or model that it is about")
    value: str = declared(WORDS, "argument of the order; may be empty")
    by: str = declared(NAME, "who ordered it")


@dataclass(frozen=True)
class Look:
    """Asks for the next pictures from a robot's cameras."""

    watcher: bytes = declared(WATCHER, "the watcher")
    robot: str = declared(NAME, "robot name")


@dataclass(frozen=True)
class Answer:
    """The result of a decision or an order."""

    number: int = declared(ID, "number from the decision or order")
    accepted: bool = declared(FLAG, "whether it was carried out", False)
    cause: str = declared(SHORT_TEXT, "why it was not carried out; empty if it was", "")
    reason: str = declared(TEXT, "explanation, or what was done", "")


ASKS: Mapping[str, type[Any]] = {"watch": Watch, "decide": Asked, "order": Order, "look": Look}
_NAMES = {kind: name for name, kind in ASKS.items()}
_WRITERS = {kind: map_writer(kind) for kind in ASKS.values()}
_READERS = {kind: values_reader(kind) for kind in ASKS.values()}
_WRITE_ANSWER, _READ_ANSWER = map_writer(Answer), values_reader(Answer)


def encode_ask(message: Watch | Asked | Order | Look) -> bytes:
    """One frame."""
    kind = type(message)
    return pack({"v": SCHEMA_VERSION, "type": _NAMES[kind], **_WRITERS[kind](message)})


def decode_ask(watcher: bytes, frame: Frame) -> Watch | Asked | Order | Look:
    """What a watcher has said. Raises `CodecError`; `VersionError` for another version."""
    header = _read(frame, "watcher", MAX_ASK_BYTES)
    name = header.get("type")
    kind = ASKS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise CodecError("unexpected_message", f"watcher: expected {', '.join(ASKS)}")
    said: Watch | Asked | Order | Look = kind(watcher=watcher, **_READERS[kind](header))
    return said


def encode_answer(answer: Answer) -> bytes:
    """One frame."""
    return pack({"v": SCHEMA_VERSION, **_WRITE_ANSWER(answer)})


def decode_answer(frame: Frame) -> Answer:
    """Raises `CodecError`; `VersionError` for another version."""
    return Answer(**_READ_ANSWER(_read(frame, "answer", MAX_ANSWER_BYTES)))


def _read(frame: Frame, what: str, max_bytes: int) -> dict[str, Any]:
    header = unpack(frame, what, max_bytes, 64)
    check_sum(frame, header, what)
    if header.get("v") != SCHEMA_VERSION or isinstance(header["v"], bool):
        raise VersionError(header.get("v"), SCHEMA_VERSION)
    return header
