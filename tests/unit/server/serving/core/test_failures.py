"""A broken model and a bad request look alike; these are the rules that tell them apart."""

from __future__ import annotations

from rosa_server.serving.core.failures import MAX_IN_A_ROW, MAX_ROBOTS, Failures


def failing(failures: Failures, *robots: str) -> list[bool]:
    return [failures.failed([robot]) for robot in robots]


def test_the_model_is_tested_after_some_failures_in_a_row_and_again_after_as_many() -> None:
    assert failing(Failures(), *["r"] * (2 * MAX_IN_A_ROW)) == 2 * ([False] * (MAX_IN_A_ROW - 1) + [True])


def test_an_answer_in_between_begins_anew() -> None:
    failures = Failures()
    for _ in range(5):
        assert not any(failing(failures, *["r"] * (MAX_IN_A_ROW - 1)))
        failures.answered()
    assert failures.batches == 0


def test_a_test_that_fails_means_a_broken_model() -> None:
    assert Failures().broken(test_passed=False, proven=True)
    assert Failures().broken(test_passed=False, proven=False)


def test_a_request_that_is_answered_again_clears_the_model_however_many_robots_failed() -> None:
    failures = Failures()
    failing(failures, "a", "b", "c")
    assert not failures.broken(test_passed=True, proven=True)


def test_a_warm_up_that_passes_clears_the_model_of_one_robots_requests_only() -> None:
    failures = Failures()
    failing(failures, "a", "a", "a")
    assert not failures.broken(test_passed=True, proven=False)
    failing(failures, "b")
    assert failures.broken(test_passed=True, proven=False)


def test_names_that_somebody_makes_up_are_not_kept_without_end() -> None:
    failures = Failures()
    failures.failed(str(number) for number in range(1000))
    assert len(failures._robots) == MAX_ROBOTS
