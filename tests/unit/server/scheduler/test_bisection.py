"""The one bisection: it ends next to the limit, from either side, and asks no more often than it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rosa_server.scheduler.bisection import bisect, furthest


@given(st.floats(0.01, 0.99), st.integers(1, 30), st.booleans())
def test_it_ends_at_the_last_number_that_fits(limit: float, steps: int, upwards: bool) -> None:
    good, bad = (0.0, 1.0) if upwards else (1.0, 0.0)

    def fits(value: float) -> bool:
        return value <= limit if upwards else value >= limit

    found = furthest(fits, good, bad, steps)
    assert fits(found)
    assert abs(found - limit) <= 2.0**-steps


@given(st.floats(0.0, 1.0))
def test_the_result_is_that_of_the_number(limit: float) -> None:
    asked: list[float] = []

    def attempt(value: float) -> str | None:
        asked.append(value)
        return f"at {value}" if value <= limit else None

    value, result = bisect(attempt, 0.0, 1.0, "at 0.0", 7)
    assert result == f"at {value}"
    assert len(asked) == 7


def test_a_narrow_interval_is_not_divided_further() -> None:
    asked: list[float] = []
    value, _ = bisect(lambda x: asked.append(x) or x, 0.9995, 1.0, 0.9995, 7, precision=1e-3)
    assert (value, asked) == (0.9995, [])
