"""Robots that were not planned: who is admitted, what the others are told, and whose place is taken again."""

from __future__ import annotations

from dataclasses import replace

from rosa_contract.wire import messages as m
from tests.unit.server.serving.core.planned import PLACEMENT, RATES, Door, full, ran_at


def test_an_admitted_robot_gets_a_slot_and_all_are_told_the_new_rates() -> None:
    stage = full(Door())
    answer = stage.greet("r2")
    assert isinstance(answer, m.Welcome)
    assert answer.rates_hz["system1"] == 1.0
    told = {say.connection: say.message for say in stage.said if isinstance(say.message, m.Welcome)}
    assert told[b"r0"].rates_hz["system1"] == told[b"r1"].rates_hz["system1"] == 1.0
    assert told[b"s0"].rates_hz == {"system1": 1.5}
    assert stage.notes[-1].fields["reason"].startswith("pick/2 joins")
    stage.send("s0", 1)
    stage.send("r2", 2)
    stage.send("r0", 3)
    assert ran_at(stage) == {1: "gpu1", 3: "gpu0"}
    stage.finish("gpu1/0.1")
    assert ran_at(stage)[2] == "gpu1"


def test_nobody_is_admitted_to_a_server_that_has_failed() -> None:
    door = Door()
    stage = full(door, replace(PLACEMENT, standbys={}))
    stage.lose("gpu1/0.1")
    answer = stage.greet("r2")
    assert isinstance(answer, m.Refused)
    assert (answer.cause, answer.reason) == (
        "not_ready",
        "gpu1 (policy) has no warm worker yet; say hello again",
    )
    assert not door.inside, "the slot is free again"
    assert "pick/2" not in (stage.core.router.placement.routes or {})
    stage.worker("gpu1/0.2", "policy")
    assert isinstance(stage.greet("r2"), m.Welcome)


def test_a_refusal_by_admission_is_remembered_until_something_changes() -> None:
    door = Door()
    stage = full(door)
    for _ in range(5):
        answer = stage.greet("s1", "sort")
        assert isinstance(answer, m.Refused)
    assert "no server with safety has room" in answer.reason
    assert door.asked == 1
    stage.leave("r0")
    stage.greet("s1", "sort")
    assert door.asked == 2


def test_the_place_of_an_admitted_robot_goes_with_it() -> None:
    stage = full(Door())
    stage.greet("r2")
    stage.leave("r2")
    assert "pick/2" not in (stage.core.router.placement.routes or {})
    assert isinstance(stage.greet("r3"), m.Welcome)
    assert isinstance(stage.greet("r4"), m.Refused)


def test_when_an_admitted_robot_leaves_the_others_are_told_that_they_may_be_faster() -> None:
    stage = full(Door())
    stage.greet("r2")
    stage.said.clear()
    stage.leave("r2")
    told = {say.connection: say.message for say in stage.said}
    assert told == {name.encode(): stage.welcome(name, RATES) for name in ("r0", "r1")}


def test_when_an_admitted_robot_falls_silent_the_others_are_told_that_they_may_be_faster() -> None:
    stage = full(Door())
    stage.greet("r2")
    while "r2" in stage.core.sessions.robots:
        for robot, task in (("r0", "pick"), ("r1", "pick"), ("s0", "sort")):
            stage.greet(robot, task)  # the others are heard
        stage.said.clear()
        stage.wait(1)
    told = {say.connection: say.message for say in stage.said}
    assert told == {name.encode(): stage.welcome(name, RATES) for name in ("r0", "r1")}


def test_robots_that_fall_silent_together_are_not_told_what_the_others_leave() -> None:
    stage = full(Door())
    stage.greet("r2")
    stage.said.clear()
    stage.wait(10.6)
    assert stage.core.sessions.robots == []
    assert stage.said == []


def test_a_planned_robot_that_leaves_makes_room_as_long_as_an_admitted_one_is_here() -> None:
    stage = full(Door())
    stage.greet("r2")
    stage.said.clear()
    stage.leave("r0")
    assert set(stage.core.router.placement.routes or ()) == {"pick/1", "pick/2", "sort/0"}
    told = {say.connection: say.message for say in stage.said}
    assert told == {name.encode(): stage.welcome(name, RATES) for name in ("r1", "r2")}
    stage.send("r2", 1)
    assert ran_at(stage) == {1: "gpu1"}, "it keeps its place"
    stage.leave("r1")
    stage.leave("r2")
    assert all(isinstance(stage.greet(robot), m.Welcome) for robot in ("r3", "r4")), "two slots stay"


def test_nobody_takes_the_place_of_a_robot_whose_server_has_failed() -> None:
    door = Door()
    stage = full(door, replace(PLACEMENT, standbys={}))
    stage.greet("r2")
    stage.lose("gpu1/0.1")
    stage.leave("r2")
    assert door.inside, "another robot could be moved to gpu1, where nobody answers"
    answer = stage.greet("r3")
    assert isinstance(answer, m.Refused)
    assert answer.cause == "not_ready"
    stage.said.clear()
    stage.worker("gpu1/0.2", "policy")
    assert not door.inside
    assert set(stage.core.router.placement.routes or ()) == {"pick/0", "pick/1", "sort/0"}
    told = {say.connection: say.message for say in stage.said}
    assert told == {name.encode(): stage.welcome(name, RATES) for name in ("r0", "r1")}


def test_a_place_beside_a_failed_server_is_taken_again_when_that_is_warm() -> None:
    stage = full(Door(), replace(PLACEMENT, standbys={}))
    stage.greet("r2")
    stage.lose("gpu1/0.1")
    stage.leave("r2")
    stage.leave("r1")  # as many places are left as were planned, r2's among them or not
    stage.worker("gpu1/0.2", "policy")
    assert len([slot for slot in stage.core.router.placement.routes or () if slot.startswith("pick/")]) == 2
    assert isinstance(stage.greet("r3"), m.Welcome)
