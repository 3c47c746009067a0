"""Robots may act faster than planned while servers have room, and are slowed down before answers are late."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest

from rosa_server.serving.core.pace import LEAST_CALLS, MOST_CALLS, MOST_PACE, Pace


def window(
    pace: Pace, spent: float, capacity_hz: float = 100.0, planned_hz: float = 50.0, there: float = 1.0
) -> float:
    """One second in which every call has spent this share of its budget; returns what is allowed next."""
    for _ in range(LEAST_CALLS):
        pace.ended(0.0, 0.2, spent * 0.2, spent <= 1)
    return pace.settle(capacity_hz, planned_hz, there)


def test_what_servers_can_run_is_allowed_at_once() -> None:
    assert Pace().settle(100.0, 50.0, 1.0) == pytest.approx(2.0)


def test_it_never_falls_below_the_plan_while_every_planned_server_is_there() -> None:
    pace = Pace()
    for _ in range(100):
        assert window(pace, 2.0, capacity_hz=60.0) >= 1.0


def test_with_fewer_servers_it_does() -> None:
    assert Pace().settle(40.0, 50.0, 0.75) == pytest.approx(0.8)
    assert Pace().settle(10.0, 50.0, 0.75) == pytest.approx(0.75), "but not below what is left of the plan"


def test_late_answers_slow_robots_down_and_early_ones_let_them_be_faster_again() -> None:
    pace = Pace()
    before = window(pace, 0.9)
    slow = window(pace, 1.5)
    assert slow < before
    for _ in range(20):
        later = window(pace, 0.5)
    assert later > slow


def test_it_does_not_oscillate_where_lateness_follows_from_the_pace() -> None:
    """A queue whose calls spend more of their budget the faster robots act; it is full at 1.8 times the plan."""
    pace, told = Pace(), []
    for _ in range(120):
        told.append(window(pace, 0.5 * pace.pace))
    settled = told[40:]
    assert max(settled) - min(settled) <= 0.15 * max(settled)
    assert sum(a != b for a, b in pairwise(settled)) < len(settled) / 4


def test_few_calls_say_nothing() -> None:
    pace = Pace()
    pace.settle(100.0, 50.0, 1.0)
    pace.ended(0.0, 0.2, 9.0, False)
    assert pace.settle(100.0, 50.0, 1.0) == pytest.approx(2.0)


def test_calls_that_come_whatever_is_allowed_count_first() -> None:
    assert Pace().settle(100.0, 50.0, 1.0, fixed_hz=25.0) == pytest.approx(1.5)


def test_nobody_here_means_no_limit() -> None:
    assert Pace().settle(100.0, 0.0, 1.0) == MOST_PACE


def test_calls_that_no_window_ends_are_forgotten() -> None:
    """Without adaptive rates `settle` is never called, and a server answers millions of calls a day."""
    pace = Pace()

    def answer(calls: int) -> None:
        for call in range(calls):
            pace.ended(0.0, 0.2, 1e-6 * call, True)

    answer(MOST_CALLS)
    tracemalloc.start()
    try:
        answer(2 * MOST_CALLS)
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert grown < 50 * MOST_CALLS, "what comes replaces what is forgotten"
