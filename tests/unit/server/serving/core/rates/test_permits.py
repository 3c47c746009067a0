"""Who may call before its turn: as many as servers are about to have room for, in the order of their turns."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.core.rates.permits import (
    LEADS,
    LOST_AFTER_S,
    MAX_LEAD_S,
    MIN_LEAD_S,
    STALE,
    Permits,
)
from tests.unit.server.serving.core.stage import IMAGES, STATE, Stage, hello, m

ROBOTS = tuple(f"r{index}" for index in range(6))
RATES_HZ = {"pick": {"system1": 1.0, "safety": 2.0, "monitor": 1.0}}


def give(permits: Permits, now_s: float, count: float) -> list[tuple[bytes, str]]:
    """Permits for calls that are answered one by one."""
    return permits.give(now_s, count, lambda _: 1)


def key(name: str) -> tuple[bytes, str]:
    return name.encode(), "system1"


def test_whoever_has_had_least_of_its_planned_rate_is_first() -> None:
    permits = Permits()
    permits.ask(0.0, key("often"), 1.0)
    assert give(permits, 0.0, 1) == [key("often")]
    permits.called(0.001, key("often"))
    permits.ask(0.0, key("often"), 1.0)
    permits.ask(0.0, key("seldom"), 1.0)
    assert give(permits, 0.5, 2) == [key("seldom"), key("often")]


def test_shares_are_those_of_the_planned_rates() -> None:
    permits, had = Permits(), {"fast": 0, "slow": 0}
    for step in range(300):
        for name, rate_hz in (("fast", 2.0), ("slow", 1.0)):
            permits.ask(0.1 * step, key(name), rate_hz)
        for connection, _ in give(permits, 0.1 * step, 1):
            had[connection.decode()] += 1
            permits.called(0.1 * step, (connection, "system1"))
    assert had["fast"] == pytest.approx(2 * had["slow"], abs=3)


def test_a_permit_is_used_once_and_a_lost_one_is_given_to_another() -> None:
    permits = Permits()
    permits.ask(0.0, key("a"), 1.0)
    assert give(permits, 0.0, inf) == [key("a")]
    assert permits.called(0.001, key("a")) is not None
    assert permits.called(0.002, key("a")) is None
    permits.ask(0.5, key("b"), 1.0)
    give(permits, 1.0, inf)
    assert permits.given(1.0) == 1
    free_s = permits.next_free_s(1.0)
    assert free_s == pytest.approx(1.0 + LEADS * permits.lead_s)
    assert permits.given(free_s) == 0
    assert permits.next_free_s(free_s) == inf


def test_a_permit_says_how_long_its_robot_has_waited() -> None:
    permits = Permits()
    permits.ask(1.0, key("a"), 1.0)
    permits.ask(1.5, key("a"), 1.0)
    give(permits, 1.8, inf)
    permit = permits.called(1.81, key("a"))
    assert permit is not None and permit.waited_s == pytest.approx(0.8), "not how long it took to call"
    permits.called(3.0, key("a"))
    permits.ask(3.0, key("a"), 1.0)
    give(permits, 3.0, inf)
    permit = permits.called(3.01, key("a"))
    assert permit is not None and permit.waited_s == 0.0


def test_who_asks_again_keeps_its_place_and_who_leaves_has_none() -> None:
    permits = Permits()
    for name in ("a", "b", "a"):
        permits.ask(0.0, key(name), 1.0)
    permits.forget(b"b")
    assert give(permits, 0.0, inf) == [key("a")]


def test_robots_that_ask_in_vain_and_call_at_their_rate_leave_nothing_behind() -> None:
    """Under overload no permit is given for hours."""
    permits = Permits()
    permits.ask(0.0, key("patient"), 1.0)
    for step in range(10_000):
        permits.ask(float(step), key("a"), 1.0)
        assert give(permits, float(step), 0) == []
        permits.called(step + 0.5, key("a"))
    assert len(permits._order) <= 2 + STALE
    permits.ask(10_000.0, key("a"), 1.0)
    assert give(permits, 10_000.0, inf) == [key("patient"), key("a")], "turns are kept"


def staged(batch: int = 2, **changes: Any) -> Stage:
    """One server of the policy that gives permits, and a guard."""
    policy = Replica("gpu0", "policy", "gpu0", batch=batch, permits=True, service_ms={1: 80.0, 2: 100.0})
    replicas = {
        "gpu0": replace(policy, **changes),
        "gpu1": Replica("gpu1", "guard", "gpu1", batch=64),
    }
    slot = {"system1": "gpu0", "safety": "gpu1", "monitor": "gpu1"}
    routes = {f"pick/{n}": slot for n in range(len(ROBOTS))}
    stage = Stage(placement=Placement(replicas, routes, RATES_HZ, adaptive=True))
    for replica in replicas.values():
        needs = (IMAGES, STATE) if replica.model == "policy" else ({}, {})
        stage.core.on_ready(stage.now_s, m.WorkerReady(f"{replica.id}/0.1", replica.model, 64, *needs))
    stage.settle()
    for robot in ROBOTS:
        welcome = stage.greet(robot)
        assert isinstance(welcome, m.Welcome) and welcome.permits == ("system1",)
    return stage


def ask(stage: Stage, *robots: str) -> None:
    for robot in robots:
        stage.core.on_robot(stage.now_s, robot.encode(), m.Ready("system1"))
    stage.settle()


def permitted(stage: Stage) -> list[str]:
    return [say.connection.decode() for say in stage.said if isinstance(say.message, m.Permit)]


def test_an_idle_server_is_offered_as_many_calls_as_it_runs_together() -> None:
    stage = staged()
    ask(stage, "r0", "r1", "r2")
    assert permitted(stage) == ["r0", "r1"]


def test_the_others_are_asked_shortly_before_it_is_free() -> None:
    stage = staged()
    ask(stage, "r0", "r1", "r2")
    for robot in ("r0", "r1"):
        stage.send(robot)
    first_s = stage.now_s
    while permitted(stage) == ["r0", "r1"]:
        stage.now_s += 0.001
        stage.settle()
        assert stage.now_s < first_s + 0.2
    assert permitted(stage) == ["r0", "r1", "r2"]
    assert 0.03 < stage.now_s - first_s < 0.1, "a batch of one takes 80 ms, the second is sent while it runs"


def test_without_a_worker_everybody_may_send_and_its_deadline_decides() -> None:
    stage = staged()
    stage.lose("gpu0/0.1")
    ask(stage, *ROBOTS)
    assert sorted(permitted(stage)) == sorted(ROBOTS)


def test_a_call_with_a_permit_is_within_its_rate_and_one_without_is_not() -> None:
    stage = staged()
    for number in range(4):
        ask(stage, "r0")
        stage.send("r0", number)
        assert not stage.dispatched[-1].calls[0].over_rate
        stage.finish("gpu0/0.1")
        stage.now_s += 0.1
    for number in range(4, 8):
        stage.send("r0", number)
        stage.finish("gpu0/0.1")
        stage.now_s += 0.1
    assert stage.dispatched[-1].calls[0].over_rate


def test_who_may_not_ask_is_told_nothing() -> None:
    stage = staged()
    stage.core.on_robot(stage.now_s, b"r0", m.Ready("safety"))
    stage.core.on_robot(stage.now_s, b"r0", m.Ready("dance"))
    stage.core.on_robot(stage.now_s, b"stranger", m.Ready("system1"))
    stage.settle()
    assert permitted(stage) == []
    assert isinstance(stage.said[-1].message, m.Refused)
    assert stage.said[-1].message.cause == "hello_required"


def answered(permits: Permits, *answers_s: float) -> None:
    """Permits that were given one after the other, and how long their calls took."""
    for step, answer_s in enumerate(answers_s):
        permits.ask(float(step), key("a"), 0.0)
        give(permits, float(step), inf)
        permits.called(step + answer_s, key("a"))


def test_the_lead_follows_how_long_the_slowest_robots_take() -> None:
    permits = Permits()
    assert permits.lead_s >= MIN_LEAD_S
    answered(permits, *[0.004, 0.01, 0.006, 0.008] * 25)
    assert permits.answer_s == pytest.approx(0.007, abs=0.001)
    assert 0.01 < permits.lead_s < 0.015, "and not the mean"


def test_a_few_answers_that_take_very_long_change_no_lead() -> None:
    permits = Permits()
    answered(permits, *[0.005] * 199, 0.05)
    usual_s = permits.lead_s
    answered(permits, *[0.005] * 50, *[LOST_AFTER_S + 0.1] * 50)
    assert permits.lead_s == usual_s < 0.01, "who was not told that it may call has not answered slowly"


def test_robots_that_lost_their_permit_and_called_at_their_rate_are_no_slow_answers() -> None:
    """One message in a hundred was lost: permits were given 58 ms early, and their calls waited so long of 61 ms."""
    permits = Permits()
    answered(permits, *[0.001, 0.0012, 0.0008] * 100, *[0.05, 0.09, 0.19] * 3)
    assert permits.lead_s < 0.005 and permits.wait_s < 0.01
    answered(permits, *[0.01, 0.03, 0.05, 0.07] * 200)
    assert permits.lead_s > 0.07, "a slow network is one"


def test_the_lead_has_a_limit() -> None:
    permits = Permits()
    answered(permits, *[0.1995] * 50)
    assert permits.lead_s == MAX_LEAD_S


def test_an_idle_server_waits_for_the_calls_that_it_has_asked_for() -> None:
    stage = staged()
    answered(stage.core._dispatcher.lanes["gpu0"].rates.line, *[0.01] * 50)
    ask(stage, "r0", "r1")
    asked_s = stage.now_s
    stage.now_s = asked_s + 0.002
    stage.send("r0")
    assert not stage.dispatched, "the other one is on its way"
    stage.now_s = asked_s + 0.009
    stage.send("r1")
    assert [len(each.calls) for each in stage.dispatched] == [2]


def test_it_does_not_wait_longer_than_a_robot_takes() -> None:
    stage = staged()
    answered(stage.core._dispatcher.lanes["gpu0"].rates.line, *[0.01] * 50)
    ask(stage, "r0", "r1")
    asked_s = stage.now_s
    stage.send("r0")
    while not stage.dispatched:
        stage.now_s += 0.001
        stage.settle()
        assert stage.now_s < asked_s + 0.02
    assert stage.now_s > asked_s + 0.009


def test_it_does_not_wait_until_a_call_is_late() -> None:
    stage = staged()
    answered(stage.core._dispatcher.lanes["gpu0"].rates.line, *[0.05] * 50)
    ask(stage, "r0", "r1")
    asked_s = stage.now_s
    stage.send("r0", budget_ms=130)  # two together take 100 ms
    while not stage.dispatched:
        stage.now_s += 0.001
        stage.settle()
        assert stage.now_s < asked_s + 0.03
    assert stage.now_s > asked_s + 0.02


def test_a_permit_that_was_used_after_a_long_stop_says_nothing_about_the_network() -> None:
    """The arm was stopped when the permit came. The call after a minute is not late because of that."""
    stage = staged()
    ask(stage, "r0")
    assert permitted(stage) == ["r0"]
    for _ in range(60):
        stage.wait(1.0)
        for robot in ROBOTS:
            stage.core.on_robot(stage.now_s, robot.encode(), hello(robot))  # a sign of life
    stage.send("r0")
    (call,) = stage.dispatched[-1].calls
    assert call.network_s == stage.core._dispatcher.lanes["gpu0"].rates.line.answer_s


def test_calls_rank_by_how_long_their_robots_have_waited() -> None:
    stage = staged(batch=1)
    ask(stage, "r0")
    stage.send("r0")
    ask(stage, "r1")
    while "r1" not in permitted(stage):
        stage.now_s += 0.001
        stage.settle()
    stage.send("r2")  # it has not asked; its deadline is earlier than that of the call with the permit
    stage.send("r1")
    stage.finish("gpu0/0.1")
    assert stage.dispatched[-1].calls[0].robot_id == "r1"
