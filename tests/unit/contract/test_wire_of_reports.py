"""What a robot reports of itself: bounded in every way, whatever a robot sends."""

from __future__ import annotations

from typing import Any

import pytest

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.packing import pack
from rosa_contract.wire.reports import open_alert
from rosa_contract.wire.status import (
    MAX_AUDITS,
    MAX_CALLS,
    MAX_CHOICES,
    MAX_COMPONENTS,
    MAX_DECISIONS,
    MAX_WORDS,
)
from tests.unit.contract.wire import STATUS, refused

COMPONENT = ["system1", 300.0, 80.0, 120.0, 9, 8, 1, 0, 0]
CALL = ["system1", 7, "in_time", 80.0, 1.0]
DECISION = ["hold", "slo_missed", "late", "system1", 1.0]
AUDIT = [3, "resume", "anna", "clear", True, "", 1.0]
ALERT = [3, "arm_fault", "a fault", ["resume"]]


def status(**changes: Any) -> list[bytes]:
    return [pack({"v": m.SCHEMA_VERSION, "t": "status", "s": "idle", "n": 0, "p": 0, **changes})]


def test_a_report_is_read_by_a_gateway_with_every_key_of_it() -> None:
    for message in (STATUS, m.Decided(2, False, "alert_settled", "anna was first")):
        frames = codec.encode(message)
        assert codec.decode_robot(codec.read_robot_header(frames), frames) == message


def test_the_alert_of_a_report_is_read_alone() -> None:
    assert open_alert(codec.read_robot_header(codec.encode(STATUS))) == STATUS.alert
    assert open_alert(codec.read_robot_header(status())) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"s": ""},
        {"s": "x" * 200},
        {"s": "a\u202eb"},
        {"r": "x" * (MAX_WORDS + 1)},
        {"b": 1},
        {"n": -1},
        {"e": "yes"},
        {"c": [COMPONENT] * (MAX_COMPONENTS + 1)},
        {"c": [COMPONENT[:-1]]},
        {"c": [["system1", -1.0, *COMPONENT[2:]]]},
        {"c": [["system1", float("nan"), *COMPONENT[2:]]]},
        {"c": [["system1", 1.0, float("inf"), *COMPONENT[3:]]]},
        {"c": {"system1": 1}},
        {"l": [CALL] * (MAX_CALLS + 1)},
        {"l": [["system1", 7, "lost", 80.0, 1.0]]},
        {"l": [["system1", 7, ["in_time"], 80.0, 1.0]]},
        {"l": [[*CALL[:-1], -1.0]]},
        {"d": [DECISION] * (MAX_DECISIONS + 1)},
        {"d": [["hold", "c", "x" * (MAX_WORDS + 1), "", 1.0]]},
        {"u": [AUDIT] * (MAX_AUDITS + 1)},
        {"u": [[*AUDIT[:4], "yes", *AUDIT[5:]]]},
        {"a": None},
        {"a": ALERT[:-1]},
        {"a": [-1, *ALERT[1:]]},
        {"a": [3, "", *ALERT[2:]]},
        {"a": [*ALERT[:3], ["resume"] * (MAX_CHOICES + 1)]},
        {"a": [*ALERT[:3], [1]]},
    ],
)
def test_a_report_beyond_its_limits_is_refused(changes: dict[str, Any]) -> None:
    assert isinstance(codec.decode(status()), m.Status), "without the change it is fine"
    with refused("bad_field"):
        codec.decode(status(**changes))


@pytest.mark.parametrize("changes", [{"i": -1}, {"o": 1}, {"c": "x" * 200}, {"r": "x" * (MAX_WORDS + 1)}])
def test_the_answer_to_a_decision_is_bounded(changes: dict[str, Any]) -> None:
    fields = {"v": m.SCHEMA_VERSION, "t": "decided", "i": 1, "o": True, "c": "", "r": ""}
    assert codec.decode([pack(fields)]) == m.Decided(1, True)
    with refused("bad_field"):
        codec.decode([pack({**fields, **changes})])


def test_a_robot_cannot_send_a_decision() -> None:
    with refused("unexpected_message"):
        codec.read_robot_header(codec.encode(m.Decide(1, 3, "resume", "anna")))
