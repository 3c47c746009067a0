"""Estimates of how long a batch runs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.timing.batches import LEARNING_RATE, MAX_FALL, BatchProfile


@given(st.dictionaries(st.integers(1, 64), st.floats(0.1, 1000), min_size=1, max_size=6), st.integers(1, 200))
def test_a_profile_estimates_every_size_within_what_it_knows(table: dict[int, float], size: int) -> None:
    estimate_ms = BatchProfile(table).service_s(size) * 1000
    largest = max(table)
    bound = max(table.values()) * max(1.0, size / largest)
    assert 0 <= estimate_ms <= bound * (1 + 1e-9)
    assert math.isfinite(estimate_ms)


def test_a_profile_learns_from_what_is_measured() -> None:
    profile = BatchProfile({4: 100.0})
    for _ in range(40):
        profile.learn(4, 50.0)
    assert profile.service_s(4) == pytest.approx(0.050, rel=0.01)


PADDED = {1: 47.0, 2: 55.0, 4: 91.0, 8: 150.0}


def test_a_size_that_does_not_exist_is_padded_to_the_next() -> None:
    profile = BatchProfile(PADDED, padded=True)
    assert [profile.service_s(size) for size in (1, 2, 3, 4, 5, 8)] == [
        0.047,
        0.055,
        0.091,
        0.091,
        0.15,
        0.15,
    ]
    assert (
        BatchProfile({4: 91.0}, padded=True).service_s(1) == 0.091 == BatchProfile({4: 91.0}, True).alone_s()
    )


def test_what_is_learned_of_a_padded_batch_is_learned_of_the_size_that_ran() -> None:
    profile = BatchProfile(PADDED, padded=True)
    profile.learn(5, 250.0)
    assert profile.sizes == (1, 2, 4, 8)
    assert profile.service_s(8) == profile.service_s(5) == pytest.approx(0.17)


def test_a_backend_tells_its_sizes_and_their_times_are_learned() -> None:
    profile = BatchProfile()
    profile.learn(3, 80.0)
    profile.has_only([8, 4, 1])
    assert (profile.padded, profile.sizes) == (True, ())
    profile.learn(3, 90.0)
    profile.learn(5, 150.0)
    assert profile.sizes == (4, 8)
    assert [profile.runs_as(size) for size in (1, 2, 5, 9)] == [1, 4, 8, 9]
    assert [profile.service_s(size) for size in (2, 4, 7)] == [0.09, 0.09, 0.15]
    assert [profile.best_count(count) for count in (5, 6, 7)] == [4, 4, 7]
    profile.has_only([])
    assert profile.runs_as(5) == 5


def test_what_was_planned_counts_more_than_what_a_backend_tells() -> None:
    profile = BatchProfile(PADDED, padded=True)
    profile.has_only([3])
    assert profile.runs_as(3) == 4


def test_fewer_run_where_padding_is_dearer_than_another_batch() -> None:
    profile = BatchProfile(PADDED, padded=True)
    assert [profile.best_count(count) for count in range(1, 9)] == [1, 2, 2, 4, 4, 4, 7, 8]
    assert [BatchProfile(PADDED).best_count(count) for count in (3, 5)] == [3, 5], "every size runs as it is"


@given(st.dictionaries(st.integers(1, 32), st.floats(1.0, 500.0), min_size=1), st.integers(1, 64))
def test_no_other_count_answers_more_per_second(table: dict[int, float], count: int) -> None:
    profile = BatchProfile(table, padded=True)
    best = profile.best_count(count)
    rates = [n / profile.service_s(n) for n in range(1, count + 1)]
    assert best / profile.service_s(best) == pytest.approx(max(rates))


@given(st.floats(0.2, 20.0), st.integers(0, 3))
def test_no_size_is_slow_for_ever_because_it_was_once(times: float, ran: int) -> None:
    """Every size was slow; then only one of them runs, as fast as planned."""
    profile = BatchProfile(PADDED, padded=True)
    for size, ms in PADDED.items():
        for _ in range(20):
            profile.learn(size, times * ms)
    size = list(PADDED)[ran]
    for _ in range(10):
        for _ in range(4):
            profile.learn(size, PADDED[size])
        profile.window()
    assert [1000 * profile.service_s(n) for n in PADDED] == pytest.approx(list(PADDED.values()), rel=0.05)


def test_one_quick_batch_shows_that_an_estimate_was_far_too_long() -> None:
    """Sizes that seldom run would stay slow for long; and what takes long by accident is no reason to believe it."""
    profile = BatchProfile({4: 100.0})
    profile.learn(4, 2000.0)
    assert profile.service_s(4) == pytest.approx(0.1 + LEARNING_RATE * 1.9)
    for _ in range(20):
        profile.learn(4, 2000.0)
    profile.learn(4, 100.0)
    assert profile.service_s(4) <= MAX_FALL * 0.1


def test_no_size_takes_longer_than_a_larger_one_that_has_just_run() -> None:
    profile = BatchProfile({1: 50.0, 2: 60.0, 8: 80.0})
    for size in (1, 2):
        for _ in range(20):
            profile.learn(size, 1000.0)
    profile.learn(8, 80.0)
    assert [1000 * profile.service_s(size) for size in (1, 2, 8)] == pytest.approx([80.0] * 3)


def test_sizes_between_those_of_the_plan_tell_how_slow_the_others_are() -> None:
    """The gateway runs what waits: 3 or 5 or 6 calls, and seldom a size that was measured."""
    profile = BatchProfile({1: 50.0, 8: 120.0, 16: 200.0})
    for _ in range(30):
        profile.learn(3, 2 * 70.0)
        profile.learn(5, 2 * 90.0)
        profile.window()
    assert profile.slower == pytest.approx(2.0)
    assert 1000 * profile.service_s(16) == pytest.approx(400.0)
    for _ in range(30):
        profile.learn(16, 200.0)
        profile.window()
    assert [1000 * profile.service_s(size) for size in (3, 5)] == pytest.approx([70.0, 90.0], rel=0.01)


def test_without_a_plan_a_size_that_has_not_run_for_long_is_tried_again() -> None:
    profile = BatchProfile()
    profile.learn(1, 40.0)
    for _ in range(9):
        profile.learn(4, 900.0)
    for _ in range(30):
        profile.learn(1, 40.0)
        profile.window()
    assert profile.service_s(4) == pytest.approx(0.040, rel=0.1)


def test_one_request_alone_is_expected_to_take_at_least_its_share_of_a_batch() -> None:
    assert BatchProfile().alone_s() == 0.0
    assert BatchProfile({4: 80.0, 8: 120.0}).alone_s() == pytest.approx(0.015)
    assert BatchProfile({1: 40.0, 8: 120.0}).alone_s() == pytest.approx(0.040)
