"""A budget is a deadline without the least way of the newest answers, and never less than half of it."""

from __future__ import annotations

import pytest

from rosa_contract.way import ANSWERS, MAX_SENT, ShortestWay


def call(way: ShortestWay, number: int, took_s: float) -> float:
    """One call with a deadline of 100 ms, 50 of which it is at the server; returns its budget, ms."""
    budget_ms = way.sent(float(number), number, 100.0)
    way.answered(number + took_s, number, 50.0)
    return budget_ms


def test_what_was_not_at_the_server_was_on_the_way() -> None:
    way = ShortestWay()
    assert call(way, 0, 0.060) == 100.0, "nothing is known yet"
    assert call(way, 1, 0.065) == pytest.approx(90.0)
    assert call(way, 2, 0.060) == pytest.approx(90.0), "the least one counts"


def test_a_longer_way_is_believed_when_the_last_answers_all_say_so() -> None:
    way = ShortestWay()
    call(way, 0, 0.051)
    for number in range(1, ANSWERS + 1):
        assert call(way, number, 0.070) == pytest.approx(99.0)
    assert call(way, ANSWERS + 1, 0.070) == pytest.approx(80.0)
    assert call(way, ANSWERS + 2, 0.052) == pytest.approx(80.0)
    assert call(way, ANSWERS + 3, 0.070) == pytest.approx(98.0), "a shorter one at once"


def test_calls_that_ran_in_vain_tell_as_well() -> None:
    way = ShortestWay()
    way.sent(1.0, 7, 100.0)
    way.answered(1.11, 7, 100.0)
    assert way.sent(2.0, 8, 100.0) == pytest.approx(90.0)


@pytest.mark.parametrize(("took_s", "least_ms"), [(5.0, 50.0), (0.001, 100.0)])
def test_what_cannot_be_is_not_believed(took_s: float, least_ms: float) -> None:
    """A server that says that it was faster, or slower, than the whole call was."""
    way = ShortestWay()
    call(way, 0, took_s)
    assert way.sent(10.0, 1, 100.0) == pytest.approx(least_ms)


def test_calls_without_an_answer_are_forgotten() -> None:
    way = ShortestWay()
    for number in range(3 * MAX_SENT):
        assert way.sent(float(number), number, 100.0) == 100.0
    way.answered(1e4, 0, 0.0)
    assert way.sent(1e4, 9999, 100.0) == 100.0


def test_another_server_is_another_way() -> None:
    way = ShortestWay()
    call(way, 0, 0.080)
    way.sent(1.0, 1, 100.0)
    way.forget()
    assert way.sent(2.0, 2, 100.0) == 100.0
    way.answered(2.0, 1, 0.0)
    assert way.sent(3.0, 3, 100.0) == 100.0, "an answer of the one before says nothing"
