"""A server that runs a schedule: slots, routes and rates."""

from __future__ import annotations

from rosa_contract.wire import messages as m
from tests.unit.server.serving.core.planned import full, planned, ran_at
from tests.unit.server.serving.core.stage import hello


def test_each_robot_takes_a_slot_and_its_calls_go_where_the_slot_is_routed() -> None:
    stage = full()
    stage.send("r0", 1)
    stage.send("r0", 2, "safety")
    stage.send("s0", 3)
    assert ran_at(stage) == {1: "gpu0", 2: "gpu2", 3: "gpu1"}


def test_a_robot_is_told_the_rates_that_it_keeps_to() -> None:
    stage = planned()
    answer = stage.greet("r0")
    assert answer == stage.welcome("r0", {"system1": 2.0, "safety": 2.0})
    assert dict(answer.models) == {"system1": "policy", "safety": "guard"}


def test_a_robot_too_many_is_refused_in_words() -> None:
    answer = full().greet("r2")
    assert isinstance(answer, m.Refused)
    assert answer.cause == "admission_off"
    assert "the 2 planned slots of task pick are taken" in answer.reason
    assert "only the planned robots are admitted" in answer.reason


def test_a_slot_is_free_again_when_its_robot_has_left_or_fallen_silent() -> None:
    stage = full()
    stage.leave("r0")
    assert isinstance(stage.greet("r2"), m.Welcome)
    stage.wait(10.6)  # nobody was heard for longer than a robot may be silent
    assert stage.core.sessions.robots == []
    assert all(isinstance(stage.greet(robot), m.Welcome) for robot in ("r3", "r4"))


def test_a_robot_that_reconnects_to_a_full_schedule_gets_its_place_back() -> None:
    stage = full()
    stage.now_s += 3.1
    stage.core.on_robot(
        stage.now_s,
        b"again",
        hello("r1", token=stage.tokens["r1"]),
    )
    stage.settle()
    assert isinstance(stage.said[-1].message, m.Welcome)
    assert stage.core.sessions.robots == ["r0", "r1", "s0"]


def test_while_its_servers_load_a_robot_is_asked_to_come_again() -> None:
    stage = planned(warm={"gpu0": "policy", "gpu2": "guard"})
    assert isinstance(stage.greet("r0"), m.Welcome)
    answer = stage.greet("s0", "sort")
    assert isinstance(answer, m.Refused)
    assert (answer.cause, answer.reason) == (
        "not_ready",
        "gpu1 (policy) has no warm worker yet; say hello again",
    )
    assert not stage.core.health().ready
    stage.worker("gpu1/0.1", "policy")
    assert stage.core.health().ready, "a standby that is still loading keeps nobody waiting"
    assert isinstance(stage.greet("s0", "sort"), m.Welcome)


def test_a_worker_that_cannot_run_the_planned_batch_is_named() -> None:
    stage = planned(warm={})
    stage.worker("gpu2/0.1", "guard", max_batch=3)
    (note,) = stage.notes
    assert note.event == "batch_below_plan"
    assert note.fields == {"worker": "gpu2/0.1", "planned": 4, "takes": 3}


def test_a_worker_that_no_server_of_the_schedule_has_is_ended() -> None:
    stage = planned()
    stage.worker("gpu9/0.1", "policy")
    stage.worker("gpu0/0.2", "guard")
    assert [kill.worker_id for kill in stage.killed] == ["gpu9/0.1", "gpu0/0.2"]


def test_what_runs_for_a_robot_that_changes_its_task_is_not_run_again_under_the_new_one() -> None:
    stage = planned()
    stage.greet("r0")
    stage.send("r0", 1, budget_ms=5000)
    assert isinstance(stage.greet("r0", "sort"), m.Welcome)
    stage.lose("gpu0/0.1")
    assert stage.statuses() == [("r0", 1, "unavailable")]
    assert len(stage.dispatched) == 1


def test_what_waits_for_a_robot_that_changes_its_task_is_answered() -> None:
    stage = planned()
    stage.greet("r0")
    stage.greet("r1")
    stage.send("r1", 1)
    stage.send("r0", 2, budget_ms=5000)  # waits
    assert isinstance(stage.greet("r0", "sort"), m.Welcome)
    assert stage.statuses() == [("r0", 2, "unavailable")]
    stage.send("r0", 3)
    assert ran_at(stage)[3] == "gpu1"
