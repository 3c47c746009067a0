"""A person takes robots out of a server, lets them come back, and makes room for more."""

from __future__ import annotations

import pytest

from rosa_contract.wire import messages as m
from rosa_server.plan.admission import Admitted
from tests.unit.server.serving.core.planned import PLACEMENT, RATES, Door, full
from tests.unit.server.serving.core.stage import Stage


def told(stage: Stage, robot: str) -> list[str]:
    """Causes of what a robot was refused with."""
    return [
        say.message.cause
        for say in stage.said
        if say.connection == robot.encode() and isinstance(say.message, m.Refused)
    ]


def test_a_removed_robot_is_told_its_calls_end_and_its_hellos_are_refused() -> None:
    stage = full()
    stage.send("r0", 1, budget_ms=5000)
    stage.send("r1", 2, budget_ms=5000)
    stage.core.remove(stage.now_s, "r0", "ann has removed this robot")
    stage.settle()
    assert told(stage, "r0") == ["removed"] and told(stage, "r1") == []
    (ended,) = stage.answers
    assert (ended.call.robot_id, ended.cause) == ("r0", "robot_left")
    stage.send("r0", 3)
    assert told(stage, "r0")[-1] == "hello_required"
    stage.wait(5.0)
    answer = stage.greet("r0")
    assert isinstance(answer, m.Refused) and answer.cause == "removed" and "ann" in answer.reason


def test_the_slot_of_a_removed_robot_is_free_and_it_may_come_back_when_it_is_admitted() -> None:
    stage = full()
    stage.core.remove(stage.now_s, "r0", "ann has removed this robot")
    stage.settle()
    assert isinstance(stage.greet("r7"), m.Welcome), "its slot is free"
    stage.leave("r7")
    del stage.core.sessions.removed["r0"]
    stage.wait(200.0)  # its name is not reserved any more: this stage sends no token
    assert isinstance(stage.greet("r0"), m.Welcome)


def test_a_robot_whose_connection_has_ended_can_be_removed() -> None:
    stage = full()
    stage.core.on_gone(stage.now_s, b"r0")
    stage.core.remove(stage.now_s, "r0", "ann has removed this robot")
    stage.settle()
    assert stage.core.sessions.of_robot("r0") is None and told(stage, "r0") == []


def test_a_slot_more_lowers_the_rates_of_all_and_stays_when_its_robot_leaves() -> None:
    stage = full(Door())
    before = len(stage.said)
    answer = stage.core.add_slot(stage.now_s, "pick", False)
    stage.settle()
    assert isinstance(answer, Admitted) and answer.slot == "pick/2"
    rates = [say.message.rates_hz for say in stage.said[before:] if isinstance(say.message, m.Welcome)]
    assert rates == [{"system1": 1.0, "safety": 2.0}] * 2, "both robots of the task are told"
    assert isinstance(stage.greet("r2"), m.Welcome)
    stage.leave("r2")
    assert "pick/2" in (stage.core.router.placement.routes or {})


def test_a_dry_run_says_what_would_follow_and_changes_nothing() -> None:
    door = Door()
    stage = full(door)
    answer = stage.core.add_slot(stage.now_s, "pick", True)
    assert isinstance(answer, Admitted) and "rates fall" in answer.reason
    assert not door.inside and stage.core.router.placement is PLACEMENT
    assert stage.core.router.rates_of("pick") == RATES


def test_no_slot_is_added_where_admission_refuses_or_a_server_has_failed() -> None:
    door = Door()
    stage = full(door)
    refused = stage.core.add_slot(stage.now_s, "sort", False)
    assert isinstance(refused, m.Refused) and refused.cause == "not_admitted"
    stage.lose("spare/guard/0.1")
    stage.lose("gpu2/0.1")
    refused = stage.core.add_slot(stage.now_s, "pick", False)
    assert isinstance(refused, m.Refused) and refused.cause == "not_ready"
    assert not door.inside


def test_without_a_schedule_there_are_no_slots() -> None:
    with pytest.raises(ValueError, match="no schedule"):
        Stage().open().core.add_slot(0.0, "pick", False)
