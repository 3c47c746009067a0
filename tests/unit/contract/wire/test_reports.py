"""What a robot reports of itself: bounded in every way, whatever a robot sends."""

from __future__ import annotations

from typing import Any

import pytest

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.packing import pack
from rosa_contract.wire.status import (
    HAS_ALERT,
    HAS_AUDITS,
    HAS_NEWS,
    MAX_AUDITS,
    MAX_CALLS,
    MAX_CHOICES,
    MAX_COMPONENTS,
    MAX_DECISIONS,
    MAX_WORDS,
    held_in,
    open_alert,
)
from tests.unit.contract.wire.samples import STATUS, refused

COMPONENT = {
    "name": "system1", "slo_ms": 300.0, "last_ms": 80.0, "p99_ms": 120.0, "sent": 9, "in_time": 8, "missed": 1,
    "consecutive_missed": 0, "late_discarded": 0,
}  # fmt: skip
CALL = {"component": "system1", "request_id": 7, "ending": "in_time", "duration_ms": 80.0, "age_ms": 1.0}
DECISION = {"action": "hold", "cause": "slo_missed", "reason": "late", "component": "system1", "age_ms": 1.0}
AUDIT = {
    "alert_id": 3, "choice": "resume", "decided_by": "anna", "why": "clear", "accepted": True, "reason": "",
    "age_ms": 1.0,
}  # fmt: skip
ALERT = {"alert_id": 3, "cause": "arm_fault", "reason": "a fault", "choices": ["resume"]}


def status(**changes: Any) -> list[bytes]:
    fields = {"v": m.SCHEMA_VERSION, "type": "status", "state": "idle", "round": 0, "attempt": 0}
    return [pack({**fields, **changes})]


def without(entry: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != key}


def test_a_report_is_read_by_a_gateway_with_every_key_of_it() -> None:
    for message in (STATUS, m.Decided(2, False, "alert_settled", "anna was first")):
        frames = codec.encode(message)
        assert codec.decode_robot(codec.read_robot_header(frames), frames) == message


def test_what_a_report_has_is_known_without_reading_it() -> None:
    assert held_in(codec.read_robot_header(codec.encode(STATUS))) == HAS_NEWS | HAS_ALERT | HAS_AUDITS
    for told, held in (
        ({}, 0),
        ({"calls": STATUS.calls}, HAS_NEWS),
        ({"decisions": STATUS.decisions}, HAS_NEWS),
        ({"audits": STATUS.audits}, HAS_NEWS | HAS_AUDITS),
        ({"alert": STATUS.alert}, HAS_ALERT),
    ):
        assert held_in(codec.read_robot_header(codec.encode(m.Status("idle", **told)))) == held


def test_the_alert_of_a_report_is_read_alone() -> None:
    assert open_alert(codec.read_robot_header(codec.encode(STATUS))) == STATUS.alert
    assert open_alert(codec.read_robot_header(status())) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"state": ""},
        {"state": "x" * 200},
        {"state": "a\u202eb"},
        {"reason": "x" * (MAX_WORDS + 1)},
        {"running": 1},
        {"round": -1},
        {"stopped": "yes"},
        {"components": [COMPONENT] * (MAX_COMPONENTS + 1)},
        {"components": [without(COMPONENT, "late_discarded")]},
        {"components": [{**COMPONENT, "more": 1}]},
        {"components": [{**COMPONENT, "slo_ms": -1.0}]},
        {"components": [{**COMPONENT, "slo_ms": float("nan")}]},
        {"components": [{**COMPONENT, "last_ms": float("inf")}]},
        {"components": {"system1": 1}},
        {"calls": [CALL] * (MAX_CALLS + 1)},
        {"calls": [{**CALL, "ending": "lost"}]},
        {"calls": [{**CALL, "ending": ["in_time"]}]},
        {"calls": [{**CALL, "age_ms": -1.0}]},
        {"decisions": [DECISION] * (MAX_DECISIONS + 1)},
        {"decisions": [{**DECISION, "reason": "x" * (MAX_WORDS + 1)}]},
        {"audits": [AUDIT] * (MAX_AUDITS + 1)},
        {"audits": [{**AUDIT, "accepted": "yes"}]},
        {"alert": None},
        {"alert": without(ALERT, "choices")},
        {"alert": {**ALERT, "alert_id": -1}},
        {"alert": {**ALERT, "cause": ""}},
        {"alert": {**ALERT, "choices": ["resume"] * (MAX_CHOICES + 1)}},
        {"alert": {**ALERT, "choices": [1]}},
    ],
)
def test_a_report_beyond_its_limits_is_refused(changes: dict[str, Any]) -> None:
    assert isinstance(codec.decode(status()), m.Status), "without the change it is fine"
    with refused("bad_field"):
        codec.decode(status(**changes))


@pytest.mark.parametrize(
    "changes", [{"number": -1}, {"accepted": 1}, {"cause": "x" * 200}, {"reason": "x" * (MAX_WORDS + 1)}]
)
def test_the_answer_to_a_decision_is_bounded(changes: dict[str, Any]) -> None:
    fields = {"v": m.SCHEMA_VERSION, "type": "decided", "number": 1, "accepted": True}
    assert codec.decode([pack(fields)]) == m.Decided(1, True)
    with refused("bad_field"):
        codec.decode([pack({**fields, **changes})])


def test_a_robot_cannot_send_a_decision() -> None:
    with refused("unexpected_message"):
        codec.read_robot_header(codec.encode(m.Decide(1, 3, "resume", "anna")))
