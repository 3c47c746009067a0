"""How busy a live server is: calls that run beside each other take it once."""

from __future__ import annotations

import pytest

from rosa_sim.fleet.live_server import covered_s


@pytest.mark.parametrize(
    ("spans", "covered"),
    [
        ([], 0.0),
        ([(1.0, 2.0), (3.0, 5.0)], 3.0),
        ([(4.0, 5.0), (0.0, 10.0)], 10.0),
        ([(0.0, 2.0), (1.0, 3.0), (1.5, 2.5), (6.0, 7.0)], 4.0),
    ],
)
def test_what_runs_beside_each_other_counts_once(spans: list[tuple[float, float]], covered: float) -> None:
    assert covered_s(spans) == pytest.approx(covered)
