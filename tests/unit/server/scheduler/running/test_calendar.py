"""Periodic calls come one after the other."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.scheduler.running.calendar import HORIZON_S, OFFSETS, offsets_s


def gaps_s(offsets: list[float], period_s: float) -> list[float]:
    """Between calls of one period that follow each other."""
    ordered = sorted(offsets)
    return [b - a for a, b in zip(ordered, [*ordered[1:], ordered[0] + period_s], strict=True)]


@pytest.mark.parametrize(("robots", "period_s"), [(20, 1 / 3), (7, 1.0), (30, 5.0)])
def test_calls_of_one_period_do_not_overlap_while_there_is_room(robots: int, period_s: float) -> None:
    takes_s = 0.8 * period_s / robots
    found = offsets_s([period_s] * robots, [takes_s] * robots)
    assert min(gaps_s(found, period_s)) >= takes_s - period_s / OFFSETS


def test_a_slow_call_comes_where_the_quick_ones_leave_room() -> None:
    periods_s = [0.5, 0.5, 2.0, 5.0, 5.0]
    found = offsets_s(periods_s, [0.08] * 5)
    times = [
        (offset + n * period) % HORIZON_S
        for offset, period in zip(found, periods_s, strict=True)
        for n in range(round(HORIZON_S / period))
    ]
    apart_s = [min((a - b) % HORIZON_S, (b - a) % HORIZON_S) for a, b in combinations(times, 2)]
    assert min(apart_s) >= 0.07


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from([1 / 3, 0.5, 1.0, 2.0, 5.0, 7.3, 20.0]), st.floats(0.001, 3.0)), max_size=30
    )
)
def test_every_call_has_an_offset_within_its_period(calls: list[tuple[float, float]]) -> None:
    periods_s, takes_s = [period for period, _ in calls], [takes for _, takes in calls]
    found = offsets_s(periods_s, takes_s)
    assert all(0 <= offset < period for offset, period in zip(found, periods_s, strict=True))
    assert found == offsets_s(periods_s, takes_s)
