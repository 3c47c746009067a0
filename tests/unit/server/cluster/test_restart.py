"""How fast a worker comes back."""

from __future__ import annotations

from itertools import pairwise

from rosa_server.cluster.restart import LONGEST_DELAY_S, Backoff


def test_the_first_restart_is_at_once_and_each_quick_end_doubles_the_delay() -> None:
    backoff = Backoff()
    delays = [backoff.ended(started_s=10.0, now_s=10.0) - 10.0 for _ in range(12)]
    assert delays[0] == 0
    assert all(later >= sooner for sooner, later in pairwise(delays))
    assert delays[-1] == LONGEST_DELAY_S


def test_a_long_life_is_forgiven() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.ended(0.0, 0.0)
    assert backoff.ended(started_s=0.0, now_s=100.0) == 100.0
