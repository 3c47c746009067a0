"""What ended tasks say about those under way."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.serving.core.queueing.lengths import MAX_KINDS, MAX_OF_KIND, TaskLengths


def of(*acted_s: float, kind: str = "k") -> TaskLengths:
    lengths = TaskLengths()
    for one_s in acted_s:
        lengths.ended(kind, one_s, 2)
    return lengths


def test_nothing_is_expected_before_a_few_tasks_have_ended() -> None:
    assert of(1.0, 2.0, 3.0, 4.0).round_s("k") == 0.0
    assert of(1.0, 2.0, 3.0, 4.0, 5.0).round_s("k") == pytest.approx(1.5)


def test_what_is_left_is_the_mean_of_what_was_left_of_longer_tasks() -> None:
    lengths = of(2.0, 4.0, 6.0, 8.0, 10.0)
    assert lengths.left_s("k", 0.0) == pytest.approx(6.0)
    assert lengths.left_s("k", 5.0) == pytest.approx((1 + 3 + 5) / 3)
    assert lengths.left_s("another", 5.0) == pytest.approx(3.0)


def test_of_a_task_that_is_longer_than_all_others_as_much_is_left_as_it_has_acted() -> None:
    assert of(2.0, 4.0).left_s("k", 7.0) == pytest.approx(7.0)


def test_one_task_of_a_kind_already_says_something_and_many_say_nearly_all() -> None:
    lengths = of(*[20.0] * 10)
    fresh_s = [lengths.left_s("short", 0.0)]
    for _ in range(50):
        lengths.ended("short", 2.0, 2)
        fresh_s.append(lengths.left_s("short", 0.0))
    assert fresh_s[0] == pytest.approx(20.0)
    assert fresh_s == sorted(fresh_s, reverse=True)
    assert fresh_s[1] < 14.0
    assert fresh_s[-1] < 2.5


def test_old_tasks_and_old_kinds_are_forgotten() -> None:
    lengths = of(*[1.0] * MAX_OF_KIND, *[9.0] * MAX_OF_KIND)
    assert lengths.left_s("k", 0.0) == pytest.approx(9.0)
    assert len(lengths) == MAX_OF_KIND
    for number in range(MAX_KINDS + 3):
        lengths.ended(f"kind {number}", 1.0, 1)
    assert len(lengths.to_data()) == MAX_KINDS
    assert "k" not in lengths.to_data()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.01, 1e5), st.integers(1, 99)), max_size=60))
def test_what_was_learned_outlives_a_restart(ended: list[tuple[str, float, int]]) -> None:
    lengths, later = TaskLengths(), TaskLengths()
    for one in ended:
        lengths.ended(*one)
    assert later.learn_from(json.loads(json.dumps(lengths.to_data())))
    for kind in "abcd":
        assert later.round_s(kind) == pytest.approx(lengths.round_s(kind))
        for acted_s in (0.0, 1.0, 100.0, 1e6):
            expected_s = lengths.left_s(kind, acted_s)
            assert later.left_s(kind, acted_s) == pytest.approx(expected_s, rel=1e-6, abs=1e-6)
            assert math.isfinite(expected_s)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"k": 3},
        {"k": [[1.0]]},
        {"k": [[1.0, 2.5]]},
        {"k": [["1", 2]]},
        {"k": [[float("nan"), 2]]},
        {"k": [[1.0, 1]] * (MAX_OF_KIND + 1)},
        {str(number): [] for number in range(MAX_KINDS + 1)},
    ],
)
def test_nothing_is_taken_from_data_that_is_not_ours(data: Any) -> None:
    lengths = TaskLengths()
    assert not lengths.learn_from(data)
    assert len(lengths) == 0


@pytest.mark.parametrize(
    "ended", [(0.0, 3), (-1.0, 3), (1.0, 0), (float("nan"), 3), (float("inf"), 3), (1e9, 3)]
)
def test_an_impossible_task_teaches_nothing(ended: tuple[float, int]) -> None:
    lengths = TaskLengths()
    lengths.ended("k", *ended)
    assert len(lengths) == 0
