"""Old and new weights are compared by what their workers have answered in the same time."""

from __future__ import annotations

import pytest

from rosa_server.serving.core.workers.comparing import MIN_ANSWERS, WorkerTally, worse


def tally(answers: int = 100, failed: int = 0, late: int = 0, each_ms: float = 50.0) -> WorkerTally:
    found = WorkerTally()
    for number in range(answers):
        found.count(number < failed, failed <= number < failed + late, each_ms)
    return found


@pytest.mark.parametrize(
    ("new", "old", "why"),
    [
        (tally(), tally(), ""),
        (tally(failed=1, late=4, each_ms=70), tally(), ""),
        (tally(failed=10, late=20), tally(failed=9, late=18), ""),
        (tally(failed=3), tally(), "more calls fail"),
        (tally(late=6), tally(), "more answers are late"),
        (tally(each_ms=81), tally(), "calls take longer"),
        (tally(each_ms=6), tally(each_ms=1), ""),
        (tally(MIN_ANSWERS - 1), tally(), "fewer than"),
        (tally(), tally(0), "fewer than"),
    ],
)
def test_new_weights_are_given_up_for_a_reason(new: WorkerTally, old: WorkerTally, why: str) -> None:
    found = worse(new, old)
    assert (why in found and str(new) in found and str(old) in found) if why else found == ""
