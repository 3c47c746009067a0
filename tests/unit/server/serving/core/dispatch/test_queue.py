"""The waiting line of one model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.serving.core.dispatch.lane import RequestQueue
from rosa_server.serving.core.queueing.ledger import Call, Ledger


def call(ledger: Ledger, robot: str, now_s: float, budget_ms: float) -> Call:
    return ledger.open(robot.encode(), robot, "system1", "policy", 0, now_s, budget_ms, [])


def test_the_tightest_deadline_runs_first() -> None:
    ledger, queue = Ledger(), RequestQueue(10)
    for robot, budget_ms in (("slow", 900), ("fast", 100), ("middle", 500)):
        queue.put(call(ledger, robot, 0.0, budget_ms))
    assert [c.robot_id for c in queue.take(queue.in_order()[:2])] == ["fast", "middle"]
    assert [c.robot_id for c in queue] == ["slow"]


def test_a_robot_that_sends_often_is_not_pushed_back_by_its_own_later_deadlines() -> None:
    ledger, queue = Ledger(), RequestQueue(10)
    queue.put(call(ledger, "eager", 0.0, 300))
    queue.put(call(ledger, "calm", 0.05, 300))
    for step in range(1, 20):
        queue.put(call(ledger, "eager", step * 0.05, 300))
    assert queue.in_order()[0].robot_id == "eager"


def test_replacing_needs_no_room() -> None:
    ledger, queue = Ledger(), RequestQueue(1)
    first = call(ledger, "r1", 0.0, 300)
    queue.put(first)
    assert queue.put(call(ledger, "r1", 0.1, 300)) is first
    assert queue.full_for(("r2", "system1"))
    with pytest.raises(OverflowError, match="limit of 1"):
        queue.put(call(ledger, "r2", 0.1, 300))


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 50)), max_size=30), st.integers(0, 60))
def test_expiry_takes_exactly_what_is_late(arrivals: list[tuple[str, int]], now: int) -> None:
    ledger, queue = Ledger(), RequestQueue(100)
    for robot, budget in arrivals:
        queue.put(call(ledger, robot, 0.0, budget * 1000))
    waiting = {c.ticket: c.deadline_s for c in queue}
    late = {c.ticket for c in queue.expire(now)}
    assert late == {ticket for ticket, deadline_s in waiting.items() if deadline_s <= now}
    assert all(c.deadline_s > now for c in queue)
    assert not len(queue) or queue.next_expiry_s <= min(c.deadline_s for c in queue)
