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
