"""A robot that sends faster than it may hurts itself only."""

from __future__ import annotations

from dataclasses import replace

from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.core.rates.control import RateMeter
from tests.unit.server.serving.core.stage import IMAGES, STATE, Stage, m

RATES = {"system1": 2.0}


def over(meter: RateMeter, *times_s: float, pace: float = 1.0, catch_up: float = 1.0) -> list[bool]:
    return [meter.over(now_s, "system1", RATES, pace, catch_up) for now_s in times_s]


def test_a_robot_at_its_rate_is_never_over_it() -> None:
    assert not any(over(RateMeter(), *(number * 0.5 for number in range(1000))))


def test_one_that_catches_up_after_being_late_is_not_over_it() -> None:
    assert not any(over(RateMeter(), 0.0, 0.5, 1.4, 1.5, 2.0, 2.5))


def test_of_one_that_sends_twice_as_often_half_is() -> None:
    found = over(RateMeter(), *(number * 0.25 for number in range(400)))
    assert 0.45 <= sum(found) / len(found) <= 0.5


def test_a_faster_pace_allows_more() -> None:
    assert not any(over(RateMeter(), *(number * 0.25 for number in range(400)), pace=2.0))


def test_components_without_a_rate_are_free() -> None:
    meter = RateMeter()
    assert not any(meter.over(0.001 * number, "safety", {"safety": 0.1}, 1.0, 1.0) for number in range(100))


def test_calls_over_the_rate_wait_until_nothing_else_does() -> None:
    replica = Replica("gpu0", "policy", "gpu0", batch=1)
    guard = Replica("gpu1", "guard", "gpu1", batch=8)
    slot = {"system1": "gpu0", "safety": "gpu1", "monitor": "gpu1"}
    slots = {f"pick/{number}": slot for number in range(3)}
    placement = Placement({"gpu0": replica, "gpu1": guard}, slots, {"pick": {"system1": 0.5}})
    stage = Stage(placement=replace(placement, catch_up=0.0))
    stage.core.on_ready(stage.now_s, m.WorkerReady("gpu0/0.1", "policy", 1, IMAGES, STATE))
    stage.core.on_ready(stage.now_s, m.WorkerReady("gpu1/0.1", "guard", 8, {}, {}))
    for robot in ("greedy", "busy", "honest"):
        stage.greet(robot)
    stage.send("greedy", 0)
    stage.finish("gpu0/0.1")
    stage.send("busy", 0, budget_ms=9000)
    stage.send("greedy", 1, budget_ms=1000)  # a second too early, and with the earlier deadline
    stage.send("honest", 0, budget_ms=9000)
    stage.finish("gpu0/0.1")
    stage.finish("gpu0/0.1")
    stage.finish("gpu0/0.1")
    assert [robot for robot, _, status in stage.statuses() if status == "ok"] == [
        "greedy",
        "busy",
        "honest",
        "greedy",
    ]
