"""Estimates of how long a batch runs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.serving.core.batch_profile import BatchProfile


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


def test_one_request_alone_is_expected_to_take_at_least_its_share_of_a_batch() -> None:
    assert BatchProfile().alone_s() == 0.0
    assert BatchProfile({4: 80.0, 8: 120.0}).alone_s() == pytest.approx(0.015)
    assert BatchProfile({1: 40.0, 8: 120.0}).alone_s() == pytest.approx(0.040)
