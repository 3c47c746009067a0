"""How fast a worker comes back."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from rosa_server.cluster.restart import (
    CALM_AFTER_BROKEN_S,
    CALM_AFTER_S,
    LONGEST_DELAY_S,
    MAX_FAILED_STARTS,
    Backoff,
    Lives,
    Roster,
)
from rosa_server.serving.base.worker_spec import MISCONFIGURED, WorkerSpec


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


def roster() -> Roster[Lives]:
    return Roster([Lives(WorkerSpec("policy/0", "policy", "emulated", ""))])


def with_heir() -> tuple[Roster[Lives], Lives, Lives]:
    """A worker that runs, and another one that starts to take its place."""
    workers = roster()
    (old,) = workers
    old.begin()
    workers.bequeath("policy/0", lambda spec: spec)
    heir = workers[-1]
    heir.begin()
    return workers, old, heir


def test_an_heir_that_is_ready_takes_the_place_of_the_old_worker() -> None:
    workers = roster()
    (old,) = workers
    assert old.begin() == "policy/0.1"
    assert (
        workers.bequeath("policy/0", lambda spec: replace(spec, options={"weights": "/new"})) == "policy/0.2"
    )
    heir = workers[1]
    assert heir.begin() == "policy/0.2" and heir.spec.options == {"weights": "/new"}
    with pytest.raises(ValueError, match="has an heir already"):
        workers.bequeath("policy/0", lambda spec: spec)
    workers.is_ready("policy/0.2", 10.0)
    assert old.held and not heir.held
    old.ended(0, 11.0)
    workers.settle(old)
    assert list(workers) == [heir]


def test_an_heir_that_never_is_ready_leaves_the_old_worker_as_it_was_and_gives_its_number_to_nobody() -> None:
    workers = roster()
    (old,) = workers
    old.begin()
    workers.bequeath("policy/0", lambda spec: spec)
    heir = workers[1]
    heir.begin()
    heir.ended(MISCONFIGURED, 10.0)
    workers.settle(heir)
    assert list(workers) == [old] and not old.held
    assert old.begin() == "policy/0.3"


def test_a_held_worker_does_not_start_again_until_it_is_given_back() -> None:
    workers = roster()
    (one,) = workers
    workers.hold("policy/0", True)
    assert not one.starts(100.0)
    one.begin()
    one.ended(0, 1.0)
    workers.settle(one)
    workers.hold("policy/0", False)
    assert list(workers) == [one] and one.starts(100.0)


def test_a_model_that_breaks_again_and_again_is_started_ever_later() -> None:
    """It is ready each time, and serves for a while: that alone does not make it sound."""
    backoff, now_s, delays = Backoff(), 0.0, []
    for _ in range(12):
        ready_s = now_s
        now_s += CALM_AFTER_S + 60.0
        delays.append(backoff.ended(ready_s, now_s, broken=True) - now_s)
    assert delays == sorted(delays) and delays[0] == 0.0 and delays[-1] == LONGEST_DELAY_S
    assert backoff.ended(now_s, now_s + CALM_AFTER_BROKEN_S, broken=True) == now_s + CALM_AFTER_BROKEN_S


def test_a_worker_that_ends_while_its_heir_starts_gets_an_id_that_nobody_has() -> None:
    workers = roster()
    (old,) = workers
    old.begin()
    workers.bequeath("policy/0", lambda spec: spec)
    heir = workers[-1]
    old.ended(-9, 1.0)
    workers.settle(old)
    assert (old.begin(), heir.begin()) == ("policy/0.3", "policy/0.2")


def test_an_heir_that_waits_takes_the_place_when_it_is_told_to() -> None:
    workers = roster()
    (old,) = workers
    old.begin()
    with pytest.raises(ValueError, match="ended meanwhile"):
        workers.inherit("policy/0")
    workers.bequeath("policy/0", lambda spec: spec, waits=True)
    heir = workers[-1]
    heir.begin()
    workers.is_ready("policy/0.2", 1.0)
    assert not old.held, "it is started again where it ends"
    workers.inherit("policy/0")
    assert old.held and not heir.held


@pytest.mark.parametrize("given_up", [False, True])
def test_an_heir_that_waits_leaves_the_old_worker_as_it_is_when_it_ends(given_up: bool) -> None:
    workers = roster()
    (old,) = workers
    old.begin()
    workers.bequeath("policy/0", lambda spec: spec, waits=True)
    heir = workers[-1]
    heir.begin()
    workers.is_ready("policy/0.2", 1.0)
    if given_up:
        assert workers.revert("policy/0") is heir and heir.held
    heir.ended(0, 2.0)
    workers.settle(heir)
    assert workers == [old] and not old.held and old.begin() == "policy/0.3"


def test_the_next_life_may_have_another_spec() -> None:
    workers = roster()
    workers.change("policy/0", lambda spec: replace(spec, options={"weights": "/new"}))
    assert workers[0].spec.options == {"weights": "/new"}


def test_an_heir_gives_its_place_back_and_ends_for_good() -> None:
    workers, old, heir = with_heir()
    workers.is_ready("policy/0.2", 1.0)
    assert old.held
    assert workers.revert("policy/0") is heir
    assert not old.held and heir.held
    heir.ended(0, 2.0)
    workers.settle(heir)
    assert workers == [old] and old.begin() == "policy/0.3", "no id is given twice"


def test_a_predecessor_that_has_ended_comes_back_when_its_heir_is_given_up() -> None:
    """As where a fault of their GPU ends both: what is said then is that the old weights serve on."""
    workers, old, heir = with_heir()
    workers.is_ready("policy/0.2", 1.0)
    for one in (old, heir):
        one.ended(-9, 2.0)
        workers.settle(one)
    assert workers == [heir]
    assert workers.revert("policy/0") is heir and heir.held
    workers.settle(heir)
    assert workers == [old] and old.starts(2.0 + LONGEST_DELAY_S) and old.begin() == "policy/0.3"


def test_an_heir_of_an_heir_gives_its_place_back_to_that_one() -> None:
    workers, old, heir = with_heir()
    workers.is_ready("policy/0.2", 1.0)
    old.ended(0, 2.0)
    workers.settle(old)
    workers.bequeath("policy/0", lambda spec: spec)
    second = workers[-1]
    second.begin()
    workers.is_ready("policy/0.3", 3.0)
    assert workers.revert("policy/0") is second and workers == [heir, second] and not heir.held
    second.ended(0, 4.0)
    workers.settle(second)
    with pytest.raises(ValueError, match="no heir"):
        workers.revert("policy/0")


def test_a_worker_that_is_held_while_it_loads_is_not_waited_for() -> None:
    workers = roster()
    (one,) = workers
    workers.hold("policy/0", True)
    with pytest.raises(ValueError, match="nobody waits for it"):
        workers.is_ready(one.begin(), 1.0)
    workers.hold("policy/0", False)
    workers.is_ready(one.worker_id, 2.0)
    assert one.ready_s == 1.0, "it has been ready since then, however often it says so"


def test_an_old_worker_that_crashed_and_loads_again_has_lost_its_place_to_the_heir() -> None:
    workers = roster()
    (old,) = workers
    old.begin()
    workers.is_ready("policy/0.1", 1.0)
    heir_id = workers.bequeath("policy/0", lambda spec: spec)
    heir = workers[-1]
    heir.begin()
    old.ended(-9, 2.0)
    workers.settle(old)
    assert old.begin() == "policy/0.3"
    workers.is_ready(heir_id, 3.0)
    with pytest.raises(ValueError, match="another one has its place"):
        workers.is_ready("policy/0.3", 4.0)
    old.ended(-9, 5.0)
    workers.settle(old)
    assert workers == [heir]


@pytest.mark.parametrize("waits", [False, True])
def test_an_old_worker_that_waits_for_its_next_start_leaves_when_its_heir_takes_over(waits: bool) -> None:
    """It stayed for ever: no other rollout could begin, and its old weights came back after a drain."""
    workers = roster()
    (old,) = workers
    old.begin()
    heir_id = workers.bequeath("policy/0", lambda spec: spec, waits)
    heir = workers[-1]
    heir.begin()
    old.ended(-9, 1.0)
    workers.settle(old)
    workers.is_ready(heir_id, 1.1)
    if waits:
        workers.inherit("policy/0")
    assert workers == [heir]
    assert workers.bequeath("policy/0", lambda spec: spec) == "policy/0.3"


def test_an_old_worker_does_not_come_back_when_its_name_is_drained_and_given_back() -> None:
    workers = roster()
    (old,) = workers
    old.begin()
    heir_id = workers.bequeath("policy/0", lambda spec: spec)
    heir = workers[-1]
    heir.begin()
    workers.is_ready(heir_id, 1.0)
    for held in (True, False):
        workers.hold("policy/0", held)
    assert old.held and not heir.held
    old.ended(0, 2.0)
    workers.settle(old)
    assert workers == [heir]


def test_a_worker_is_not_lost_when_it_is_drained_while_a_new_one_that_was_given_up_ends() -> None:
    workers, old, heir = with_heir()
    workers.hold("policy/0", True)
    for one in (old, heir):
        one.ended(-9, 1.0)
        workers.settle(one)
    assert workers == [old]
    workers.hold("policy/0", False)
    assert old.starts(100.0)
