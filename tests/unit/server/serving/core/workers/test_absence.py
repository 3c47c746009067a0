"""A worker that cannot be reached is given up in time, and what it was given before counts no more."""

from __future__ import annotations

from rosa_server.serving.core.workers.absence import GIVE_UP_S, Absences


def test_a_worker_that_comes_back_in_time_is_not_given_up_and_answers_for_new_batches_only() -> None:
    absences = Absences()
    assert absences.announced("policy/0.1", 0.0, next_batch=0) == 0.0
    assert not absences.stale("policy/0.1", 0)
    absences.link_ended("policy/0.1", 5.0)
    assert absences.given_up(5.0 + GIVE_UP_S / 2) == []
    assert absences.announced("policy/0.1", 7.0, next_batch=12) == 2.0
    assert absences.stale("policy/0.1", 11), "others were given it"
    assert not absences.stale("policy/0.1", 12)
    assert absences.given_up(100.0) == []


def test_a_worker_that_stays_away_is_given_up_once_also_when_its_link_flaps_unannounced() -> None:
    absences = Absences()
    absences.announced("policy/0.1", 0.0, next_batch=0)
    absences.link_ended("policy/0.1", 1.0)
    absences.link_ended("policy/0.1", 1.0 + GIVE_UP_S / 2)
    assert absences.given_up(1.0 + GIVE_UP_S) == ["policy/0.1"]
    assert absences.given_up(100.0) == []


def test_a_life_that_is_over_is_forgotten() -> None:
    absences = Absences()
    absences.announced("policy/0.1", 0.0, next_batch=7)
    absences.link_ended("policy/0.1", 1.0)
    absences.forget("policy/0.1")
    assert absences.given_up(100.0) == []


def test_a_silent_worker_is_away_until_it_is_heard_again_and_need_not_announce_itself() -> None:
    absences = Absences()
    absences.announced("policy/0.1", 0.0, next_batch=0)
    assert absences.quiet({"policy/0.1"}, 5.0) == []
    absences.passed_over("policy/0.1", 5.5)
    assert absences.away("policy/0.1") and absences.quiet({"policy/0.1"}, 6.0) == []
    assert absences.quiet((), 6.5) == ["policy/0.1"]
    assert absences.announced("policy/0.1", 6.5, next_batch=4) == 1.5, "counted from the silence on"
    assert absences.stale("policy/0.1", 3) and not absences.stale("policy/0.1", 4)
    assert absences.quiet((), 7.0) == []


def test_a_silent_worker_whose_link_ends_has_to_announce_itself_and_is_given_up_as_early() -> None:
    for passed_over in (True, False):  # or it was the only one, and kept its calls
        absences = Absences()
        absences.announced("policy/0.1", 0.0, next_batch=0)
        absences.quiet({"policy/0.1"}, 5.0)
        if passed_over:
            absences.passed_over("policy/0.1", 5.0)
        absences.link_ended("policy/0.1", 7.0)
        assert absences.quiet((), 7.0) == []
        assert absences.given_up(5.0 + GIVE_UP_S) == ["policy/0.1"]
