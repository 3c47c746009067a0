"""Old and new weights are compared by what their workers have answered in the same time."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_contract.wire.messages import Output
from rosa_server.serving.core.workers.comparing import (
    DEFAULT,
    MIN_ANSWERS,
    Likeness,
    WorkerTally,
    unlike,
    worse,
)


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


def test_only_what_a_robot_carries_out_is_laid_side_by_side() -> None:
    """The same weights tell another age of their observation each time: that is a time, and no action."""
    likeness, random = Likeness(), np.random.default_rng(0)
    for _ in range(MIN_ANSWERS):
        chunk = random.normal(size=(8, 8)).astype(np.float32)
        old, new = (
            Output(
                {
                    "actions": chunk,
                    "step_s": np.array([0.05], np.float32),
                    "observation_age_s": random.uniform(0.01, 0.1, 1).astype(np.float32),
                }
            )
            for _ in range(2)
        )
        likeness.compare(old, new)
    assert likeness.distance == 0.0 and unlike(likeness, DEFAULT) == ""


def test_new_weights_that_play_their_actions_at_another_pace_act_otherwise() -> None:
    likeness, chunk = Likeness(), np.zeros((8, 8), np.float32)
    likeness.compare(
        Output({"actions": chunk, "step_s": np.array([0.05], np.float32)}),
        Output({"actions": chunk, "step_s": np.array([0.10], np.float32)}),
    )
    assert "actions differ" in unlike(likeness, DEFAULT)
