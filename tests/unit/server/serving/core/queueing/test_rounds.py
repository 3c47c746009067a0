"""How long a stream has waited, by the equations of Kairos 3.2.1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.serving.core.queueing.order import Rounds


def test_after_a_longer_execution_the_wait_is_the_gap_between_executions() -> None:
    rounds = Rounds(0.0)
    rounds.arrived(0.0)
    rounds.answered(0.5, 0.6)  # generation of 0.1 s; no round was recorded before it
    rounds.arrived(1.6)  # executed for 1 s
    rounds.answered(1.9, 2.0)
    assert rounds.last_execution_s == pytest.approx(1.0)
    assert rounds.waited_s == pytest.approx(0.4)
    assert rounds.wait_ratio(2.0) == pytest.approx(0.2)
    rounds.arrived(3.0)
    assert rounds.wait_ratio(4.0) == pytest.approx(0.1), (
        "the wait of a call that has not run is not recorded yet"
    )
    assert rounds.acted_s == pytest.approx(2.0)


def test_after_a_longer_generation_the_wait_is_the_gap_between_generations() -> None:
    rounds = Rounds(0.0)
    rounds.arrived(0.0)
    rounds.answered(0.0, 1.0)
    rounds.arrived(1.2)
    rounds.answered(1.5, 2.5)
    assert rounds.waited_s == pytest.approx(0.5)


def test_a_robot_that_calls_ahead_and_is_answered_before_it_has_finished_has_not_waited() -> None:
    rounds = Rounds(0.0)
    rounds.arrived(0.0)
    rounds.answered(0.0, 0.1)
    rounds.arrived(0.9, acts_until_s=1.1)
    rounds.answered(0.95, 1.05)
    assert rounds.last_execution_s == pytest.approx(1.0)
    assert rounds.waited_s == 0.0
    rounds.arrived(1.9, acts_until_s=2.1)
    assert rounds.last_execution_s == pytest.approx(1.0), (
        "the second execution began when the first had ended"
    )


def test_asking_again_for_an_answer_that_did_not_come_is_no_execution() -> None:
    rounds = Rounds(0.0)
    rounds.arrived(0.0)
    rounds.arrived(0.3)
    assert rounds.last_execution_s == 0.0
    rounds.answered(0.3, 0.4)
    assert rounds.waited_s == 0.0, "the wait before the first round is between no rounds"
    rounds.arrived(1.4)
    rounds.arrived(1.7)
    rounds.arrived(2.0)
    assert rounds.last_execution_s == pytest.approx(1.0)
    rounds.answered(2.0, 2.1)
    assert rounds.waited_s == pytest.approx(0.7)


@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.floats(0, 5), st.floats(0.001, 5)),
        min_size=1,
        max_size=30,
    )
)
def test_the_wait_of_a_robot_that_looks_acts_and_asks_is_within_its_lifetime(
    rounds_s: list[tuple[float, float, float]],
) -> None:
    now_s = 10.0
    rounds = Rounds(now_s)
    for queued_s, acts_s, generates_s in rounds_s:
        rounds.arrived(now_s)
        now_s += queued_s + generates_s
        rounds.answered(now_s - generates_s, now_s)
        now_s += acts_s
        assert 0.0 <= rounds.waited_s <= now_s - 10.0 + 1e-9
        assert 0.0 <= rounds.wait_ratio(now_s) <= 1.0
