"""The order of waiting calls, by every policy, alone and inside the server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_contract.gateway import EXECUTION_AWARE, FIRST_COME, LEAST_ATTAINED_SERVICE, ORDERS, Gateway
from rosa_server.serving.core.ledger import Call, Ledger
from rosa_server.serving.core.order import ExecutionAware, FirstCome, Order, Ranking, order_of
from rosa_server.serving.core.queue import RequestQueue
from rosa_server.serving.core.rounds import Rounds
from tests.unit.server.serving.core.stage import FACTORY, Stage


def call(ledger: Ledger, robot: str, now_s: float = 0.0, budget_ms: float = 1000.0) -> Call:
    return ledger.open(robot.encode(), robot, "system1", "policy", 0, now_s, budget_ms, [])


def rounds(waited_s: float = 0.0, acted_s: float = 0.0, skipped: int = 0) -> Rounds:
    """A stream that has just finished acting, 10 s after it began."""
    known = Rounds(0.0)
    known.answered(10.0 - acted_s, 10.0 - acted_s)
    known.arrived(10.0)
    known.waited_s, known.last_execution_s, known.skipped = waited_s, acted_s, skipped
    return known


def bucket(order: ExecutionAware, known: Rounds) -> float:
    return order.bucket(10.0, known)


def test_every_name_of_the_factory_file_is_a_policy() -> None:
    assert {type(order_of(Gateway(order=name))) for name in ORDERS} == set(Order.__subclasses__())


def test_wait_ratios_fall_into_buckets_of_equal_width() -> None:
    order = ExecutionAware(buckets=10, ageing=5)
    assert [bucket(order, rounds(waited_s)) for waited_s in (0.0, 0.99, 1.0, 5.5, 9.99, 10.0)] == [
        0,
        0,
        1,
        5,
        9,
        9,
    ]


def test_without_buckets_the_ratio_itself_decides() -> None:
    order = ExecutionAware(buckets=0, ageing=5)
    assert bucket(order, rounds(1.1)) < bucket(order, rounds(1.2))


def test_a_call_that_is_passed_over_rises_and_stops_at_the_top() -> None:
    order = ExecutionAware(buckets=10, ageing=5)
    risen = [bucket(order, rounds(2.0, skipped=skipped)) for skipped in (0, 4, 5, 6, 10, 11, 1000)]
    assert risen == [2, 2, 3, 4, 4, 5, 9]


def test_within_a_bucket_the_longest_execution_goes_first_and_skips_lengthen_it() -> None:
    order, one = ExecutionAware(buckets=10, ageing=100), call(Ledger(), "r")
    long, short = order.rank(10.0, one, rounds(acted_s=1.0)), order.rank(10.0, one, rounds(acted_s=0.3))
    assert long < short
    assert order.rank(10.0, one, rounds(acted_s=0.3, skipped=3)) < long
    assert order.rank(10.0, one, rounds(2.0)) < long, "a higher bucket goes before any estimate"


def test_first_come_keeps_the_place_of_a_replaced_request() -> None:
    ledger, queue = Ledger(), RequestQueue(10, Ranking(FirstCome()))
    queue.put(call(ledger, "eager", 0.0, 300))
    queue.put(call(ledger, "calm", 0.1, 100))
    queue.put(call(ledger, "eager", 0.2, 300))
    assert [one.robot_id for one in queue] == ["eager", "calm"]


def served(order: str, extra: str = "") -> Stage:
    factory = FACTORY.replace("gateway: {", f"gateway: {{order: {order}, {extra}").replace(
        "slo_ms: 300", "slo_ms: 9000"
    )
    stage = Stage(100, factory).open("a", "b", "c")
    stage.worker("p1", "policy", 1)
    return stage


def round_of(stage: Stage, robot: str, request_id: int, generates_s: float, acts_s: float) -> None:
    """A robot alone: it is answered after `generates_s` and sends again `acts_s` later."""
    stage.send(robot, request_id, "system1", 9000)
    stage.wait(generates_s)
    stage.finish("p1", generates_s * 1000)
    stage.wait(acts_s)


def next_of(stage: Stage, *robots: str) -> list[str]:
    """Who runs in which order when these robots send while the worker is busy with robot `c`."""
    stage.send("c", 100, "system1", 9000)
    before = len(stage.dispatched)
    for number, robot in enumerate(robots):
        stage.send(robot, 200 + number, "system1", 9000 - number)
    for _ in range(len(robots) + 1):
        stage.finish("p1", 10.0)
    return [one.calls[0].robot_id for one in stage.dispatched[before:]]


def test_the_server_runs_first_whom_its_models_have_served_least() -> None:
    stage = served(LEAST_ATTAINED_SERVICE)
    round_of(stage, "a", 1, 0.3, 0.1)
    round_of(stage, "b", 2, 0.1, 0.1)
    assert next_of(stage, "a", "b") == ["b", "a"]


def test_the_server_runs_in_order_of_arrival() -> None:
    assert next_of(served(FIRST_COME), "b", "a") == ["b", "a"]


def test_the_server_runs_first_who_acts_longest_while_nobody_has_waited() -> None:
    stage = served(EXECUTION_AWARE)
    stage.send("a", 1, "system1", 9000)
    stage.finish("p1", 10.0)
    stage.send("b", 2, "system1", 9000)
    stage.finish("p1", 10.0)
    stage.wait(0.5)
    stage.send("b", 3, "system1", 9000)  # b acted for 0.5 s, a will have acted for 1 s
    stage.finish("p1", 10.0)
    stage.wait(0.5)
    assert next_of(stage, "b", "a") == ["a", "b"]


def test_what_is_known_of_a_robot_is_forgotten_with_its_session() -> None:
    stage = served(EXECUTION_AWARE)
    ranking = stage.core.queues["policy"].ranking
    round_of(stage, "a", 1, 0.1, 0.1)
    assert len(ranking) == 1
    stage.send("a", 2, "system1", 9000)
    stage.wait(12)
    stage.finish("p1", 10.0)
    assert "a" not in stage.core.sessions.robots
    assert len(ranking) == 0, "the late result of a robot that has left begins no new record"


def test_nothing_is_kept_for_a_policy_that_needs_nothing() -> None:
    stage = served(FIRST_COME)
    round_of(stage, "a", 1, 0.1, 0.1)
    assert len(stage.core.queues["policy"].ranking) == 0


@pytest.mark.parametrize("name", ORDERS)
@given(
    arrivals=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 9), st.booleans()), max_size=40),
    ageing=st.integers(1, 5),
    buckets=st.integers(0, 12),
)
def test_every_policy_ranks_every_waiting_call_once_and_nobody_waits_for_ever(
    name: str, arrivals: list[tuple[str, int, bool]], ageing: int, buckets: int
) -> None:
    ledger = Ledger()
    ranking = Ranking(order_of(Gateway(order=name, order_buckets=buckets, order_ageing=ageing)))
    queue = RequestQueue(100, ranking)
    now_s = 0.0
    for robot, budget, runs in arrivals:
        now_s += 0.1
        one = call(ledger, robot, now_s, budget * 1000.0)
        ranking.arrived(now_s, one)
        queue.put(one)
        queue.expire(now_s)
        queue.rank_at(now_s)
        order = queue.in_order()
        assert sorted(c.ticket for c in order) == sorted(c.ticket for c in queue)
        assert all(c.deadline_s > now_s for c in order)
        if runs and order:
            taken = queue.take(order[:1])
            taken[0].dispatched_s = now_s
            ranking.dispatched(taken, queue)
            ranking.executed(now_s + 0.05, taken[0], 0.05, True)
    assert len(ranking) <= 6
    for _ in range(len(queue)):
        queue.take(queue.in_order()[:1])
    assert not len(queue)


def test_a_call_with_the_shortest_execution_is_not_passed_over_for_ever() -> None:
    """Ageing: seven robots with longer executions keep the queue full, and the eighth still runs."""
    ledger, ranking = Ledger(), Ranking(ExecutionAware(buckets=10, ageing=5))
    queue = RequestQueue(100, ranking)
    for robot in "abcdefgh":
        one = call(ledger, robot, 0.0, 1e6)
        ranking.arrived(0.0, one)
        queue.put(one)
        known = ranking.rounds(one)
        assert known is not None
        known.last_execution_s = 0.1 if robot == "h" else 5.0
    ran = []
    for step in range(1, 5 * 8 * 10 + 10):  # 5 s with 8 robots against 0.1 s: fifty times as many skips
        queue.rank_at(float(step))
        (taken,) = queue.take(queue.in_order()[:1])
        ranking.dispatched([taken], queue)
        ran.append(taken.robot_id)
        again = call(ledger, taken.robot_id, float(step), 1e6)
        queue.put(again)
    assert "h" in ran
