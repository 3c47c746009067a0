"""More robots than a worker can carry: it keeps answering as many in time as it can, instead of everybody late."""

from __future__ import annotations

import pytest

from benchmarks.batching import measure

SECONDS = 15.0  # simulated


@pytest.mark.parametrize(
    ("robots", "how", "batch", "least_hz", "least_in_time"),
    [
        (16, "aware", 16, 43.0, 0.98),  # just what it can carry
        (24, "aware", 16, 43.0, 0.65),  # half as many again; 4 % before expectations followed what happens
        (24, "padded", 4, 38.0, 0.60),  # 1 % before calls that are late anyway yielded
        (12, "padded", 1, 18.0, 0.55),
    ],
)
def test_a_full_worker_does_not_collapse(
    robots: int, how: str, batch: int, least_hz: float, least_in_time: float
) -> None:
    found = measure(robots, how, batch, SECONDS)
    assert float(str(found["actions_hz"])) >= least_hz, found
    assert float(str(found["in_time"])) >= least_in_time, found
