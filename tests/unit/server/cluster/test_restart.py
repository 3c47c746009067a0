"""How fast a worker comes back."""

from __future__ import annotations

from itertools import pairwise

from rosa_server.cluster.restart import CALM_AFTER_S, LONGEST_DELAY_S, MAX_FAILED_STARTS, Backoff


def test_the_first_restart_is_at_once_and_each_quick_end_doubles_the_delay() -> None:
    backoff = Backoff()
    delays = [backoff.ended(ready_s=None, now_s=10.0) - 10.0 for _ in range(12)]
    assert delays[0] == 0
    assert all(later >= sooner for sooner, later in pairwise(delays))
    assert delays[-1] == LONGEST_DELAY_S


def test_a_worker_that_served_in_between_never_waits() -> None:
    """Killed again and again, it once waited half a minute each time."""
    backoff = Backoff()
    for life in range(20):
        began_s = life * 100.0
        ended_s = began_s + CALM_AFTER_S + 1.0
        assert backoff.ended(ready_s=began_s + 1.0, now_s=ended_s) == ended_s


def test_a_worker_that_ends_as_soon_as_it_is_ready_waits_longer_and_longer() -> None:
    backoff = Backoff()
    delays = [backoff.ended(ready_s=9.0, now_s=10.0) - 10.0 for _ in range(12)]
    assert delays[-1] == LONGEST_DELAY_S
    assert not backoff.hopeless, "it may work another time"


def test_starts_of_which_none_gets_ready_are_hopeless_after_a_few() -> None:
    backoff = Backoff()
    for _ in range(MAX_FAILED_STARTS):
        assert not backoff.hopeless
        backoff.ended(ready_s=None, now_s=0.0)
    assert backoff.hopeless


def test_a_process_that_could_not_be_started_says_nothing_about_the_worker() -> None:
    backoff = Backoff()
    for _ in range(2 * MAX_FAILED_STARTS):
        backoff.later(0.0)
    assert not backoff.hopeless
