"""A rate inside a faster loop: kept on average, also when the loop's periods do not divide it, and never hurried."""

from __future__ import annotations

import pytest

from rosa_client.nodes.base.rate import Rate


@pytest.mark.parametrize("rate_hz", [20.0, 30.0, 40.0, 100.0])
def test_a_rate_is_kept_on_average(rate_hz: float) -> None:
    rate = Rate(rate_hz, 0.01)
    times = [rate.due(100.0 + 0.01 * period) for period in range(1000)]
    assert sum(times) == pytest.approx(10 * rate_hz, abs=1)


def test_time_that_was_lost_is_not_made_up_for() -> None:
    rate = Rate(20.0, 0.01)
    assert rate.due(100.0)
    assert rate.due(105.0)
    after = [rate.due(105.0 + 0.01 * period) for period in range(1, 101)]
    assert sum(after) <= 20 + 1
