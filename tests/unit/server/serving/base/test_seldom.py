"""Log lines that peers can cause: equal ones once in a while, and all together a bounded number."""

from __future__ import annotations

import pytest

from rosa_server.serving.base.log import LINES_AT_ONCE, LINES_PER_S, LineBudget, Seldom


def test_equal_lines_are_said_once_in_a_while_and_then_how_many_were_not() -> None:
    seldom = Seldom(every_s=1.0)
    assert seldom.due("a", 100.0)
    assert seldom.unsaid == 0
    assert not seldom.due("a", 100.5)
    assert not seldom.due("a", 100.9)
    assert seldom.due("b", 100.9), "another line has its own time"
    assert seldom.unsaid == 0
    assert seldom.due("a", 101.0)
    assert seldom.unsaid == 2
    assert seldom.due("a", 102.0)
    assert seldom.unsaid == 0


def test_however_many_different_lines_a_peer_makes_up_a_bounded_number_is_said_and_remembered() -> None:
    seldom = Seldom(every_s=1000.0)
    said = sum(seldom.due(number, 100.0 + number * 1e-3) for number in range(200_000))
    assert LINES_PER_S * 200 * 0.99 <= said <= LINES_PER_S * 200 + LINES_AT_ONCE
    assert len(seldom._repeats) <= Seldom.MOST


def test_a_flood_leaves_out_lines_while_it_lasts_and_not_afterwards() -> None:
    budget = LineBudget()
    said = sum(budget.due(100.0 + number * 1e-3) for number in range(10_000))
    assert said == pytest.approx(LINES_PER_S * 10 + LINES_AT_ONCE, abs=1)
    assert [budget.due(111.0) for _ in range(round(LINES_AT_ONCE) + 1)] == [True] * round(LINES_AT_ONCE) + [
        False
    ]
