"""A robot's report of itself and a person's decision: to headers and back. Raises `CodecError`, whatever came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.wire import status as s
from rosa_contract.wire.packing import Frame, short
from tests.unit.contract.version3 import fields
from tests.unit.contract.version3.fields import MAX_ID, MAX_NAME_CHARS, Header, check_count, finite

MAX_MS = 1e9
Parts = tuple[Header, list[Frame]]


def status_parts(message: s.Status) -> Parts:
    header: Header = {
        "s": message.state,
        "r": message.reason,
        "b": message.running,
        "n": message.round,
        "p": message.attempt,
        "e": message.stopped,
        "c": [_listed(one) for one in message.components],
    }
    if message.alert is not None:
        one = message.alert
        header["a"] = [one.alert_id, one.cause, one.reason, list(one.choices)]
    for key, news in (("l", message.calls), ("d", message.decisions), ("u", message.audits)):
        if news:
            header[key] = [_listed(entry) for entry in news]
    return header, []


def _listed(one: Any) -> list[Any]:
    """The fields of a dataclass in their order."""
    values = [getattr(one, name) for name in one.__dataclass_fields__]
    return [finite(type(one).__name__, value) if isinstance(value, float) else value for value in values]


def status_from(header: Header, frames: Sequence[Frame]) -> s.Status:
    check_count(frames, 1, "status")
    return s.Status(
        state=fields.name(header, "s"),
        reason=fields.text(header, "r", s.MAX_WORDS),
        running=fields.flag(header, "b", "status: running"),
        round=fields.whole(header.get("n"), "status: round", 0, MAX_ID),
        attempt=fields.whole(header.get("p"), "status: attempt", 0, MAX_ID),
        stopped=fields.flag(header, "e", "status: stopped"),
        components=tuple(_component(one) for one in _entries(header, "c", s.MAX_COMPONENTS, 9)),
        alert=open_alert(header),
        calls=tuple(_call(one) for one in _entries(header, "l", s.MAX_CALLS, 5)),
        decisions=tuple(_decision(one) for one in _entries(header, "d", s.MAX_DECISIONS, 5)),
        audits=tuple(_audit(one) for one in _entries(header, "u", s.MAX_AUDITS, 7)),
    )


def open_alert(header: Header) -> s.OpenAlert | None:
    """The alert of a status, which is all that a gateway reads of one."""
    if "a" not in header:
        return None
    entry = header["a"]
    if not isinstance(entry, list) or len(entry) != 4:
        words = f"expected [number, cause, reason, choices], got {short(entry)}"
        raise CodecError("bad_field", f"status: alert: {words}")
    told = {"t": "status: alert", "cause": entry[1], "reason": entry[2], "choices": entry[3]}
    choices = fields.sequence(told, "choices", s.MAX_CHOICES)
    return s.OpenAlert(
        fields.whole(entry[0], "status: alert", 0, MAX_ID),
        fields.name(told, "cause"),
        fields.text(told, "reason", s.MAX_WORDS),
        tuple(fields.name({"t": "status: alert", "choice": choice}, "choice") for choice in choices),
    )


def _entries(header: Header, key: str, limit: int, length: int) -> list[list[Any]]:
    listed = fields.sequence({key: [], **header}, key, limit)
    for entry in listed:
        if not isinstance(entry, list) or len(entry) != length:
            raise CodecError("bad_field", f"status: {key}: expected lists of {length}, got {short(entry)}")
    return listed


def _component(entry: list[Any]) -> s.ComponentStatus:
    told = {"t": "status", **dict(zip(s.ComponentStatus.__dataclass_fields__, entry, strict=True))}
    slo_ms, last_ms, p99_ms = (
        fields.number(told, key, 0.0, MAX_MS) for key in ("slo_ms", "last_ms", "p99_ms")
    )
    counts = [fields.whole(one, "status: calls", 0, MAX_ID) for one in entry[4:]]
    return s.ComponentStatus(fields.name(told, "name"), slo_ms, last_ms, p99_ms, *counts)


def _call(entry: list[Any]) -> s.EndedCall:
    told = {"t": "status", **dict(zip(s.EndedCall.__dataclass_fields__, entry, strict=True))}
    if told["ending"] not in s.ENDINGS:
        words = f"expected one of {', '.join(s.ENDINGS)}, got {short(told['ending'])}"
        raise CodecError("bad_field", f"status: ending: {words}")
    return s.EndedCall(
        fields.name(told, "component"),
        fields.whole(told["request_id"], "status: request_id", 0, MAX_ID),
        told["ending"],
        fields.number(told, "duration_ms", 0.0, MAX_MS),
        fields.number(told, "age_ms", 0.0, s.MAX_AGE_MS),
    )


def _decision(entry: list[Any]) -> s.TakenDecision:
    told = {"t": "status", **dict(zip(s.TakenDecision.__dataclass_fields__, entry, strict=True))}
    return s.TakenDecision(
        fields.name(told, "action"),
        fields.text(told, "cause", MAX_NAME_CHARS),
        fields.text(told, "reason", s.MAX_WORDS),
        fields.text(told, "component", MAX_NAME_CHARS),
        fields.number(told, "age_ms", 0.0, s.MAX_AGE_MS),
    )


def _audit(entry: list[Any]) -> s.Audit:
    told = {"t": "status", **dict(zip(s.Audit.__dataclass_fields__, entry, strict=True))}
    return s.Audit(
        fields.whole(told["alert_id"], "status: alert_id", 0, MAX_ID),
        fields.text(told, "choice", MAX_NAME_CHARS),
        fields.text(told, "decided_by", MAX_NAME_CHARS),
        fields.text(told, "why", s.MAX_WORDS),
        fields.flag(told, "accepted", "status: audit: accepted"),
        fields.text(told, "reason", s.MAX_WORDS),
        fields.number(told, "age_ms", 0.0, s.MAX_AGE_MS),
    )


def decide_parts(message: s.Decide) -> Parts:
    told = {"i": message.number, "a": message.alert_id, "c": message.choice}
    return {**told, "b": message.decided_by, "w": message.why}, []


def decide_from(header: Header, frames: Sequence[Frame]) -> s.Decide:
    check_count(frames, 1, "decide")
    return s.Decide(
        fields.whole(header.get("i"), "decide: number", 0, MAX_ID),
        fields.whole(header.get("a"), "decide: alert_id", 0, MAX_ID),
        fields.name(header, "c"),
        fields.name(header, "b"),
        fields.text(header, "w", s.MAX_WORDS),
    )


def decided_parts(message: s.Decided) -> Parts:
    return {"i": message.number, "o": message.accepted, "c": message.cause, "r": message.reason}, []


def decided_from(header: Header, frames: Sequence[Frame]) -> s.Decided:
    check_count(frames, 1, "decided")
    return s.Decided(
        fields.whole(header.get("i"), "decided: number", 0, MAX_ID),
        fields.flag(header, "o", "decided: accepted"),
        fields.text(header, "c", MAX_NAME_CHARS),
        fields.text(header, "r", s.MAX_WORDS),
    )
