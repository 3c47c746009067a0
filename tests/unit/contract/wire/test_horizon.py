"""A task's horizon policy says which horizons its robot accepts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_contract.wire.horizon import Horizon

STEPS = st.integers(1, 40)


@pytest.mark.parametrize(
    ("spec", "steps", "available", "accepted"),
    [
        (Horizon("static", steps=8), 8, 16, True),
        (Horizon("static", steps=8), 7, 16, False),
        (Horizon("static", steps=8), 6, 6, True),
        (Horizon("threshold", t=0.4, min=4), 4, 16, True),
        (Horizon("threshold", t=0.4, min=4), 3, 16, False),
        (Horizon("threshold", t=0.4, min=4), 16, 16, True),
        (Horizon("threshold", t=0.4, min=4), 17, 16, False),
        (Horizon("threshold", t=0.4, min=4, max=12), 13, 16, False),
        (Horizon("threshold", t=0.4), 1, 16, True),
        (Horizon("threshold", t=0.4), 0, 16, False),
    ],
)
def test_what_a_robot_accepts(spec: Horizon, steps: int, available: int, accepted: bool) -> None:
    assert (spec.refusal(steps, available) == "") is accepted


@given(STEPS, STEPS, STEPS, STEPS)
def test_what_a_policy_is_moved_to_is_always_accepted(
    wanted: int, available: int, one: int, two: int
) -> None:
    for spec in (
        Horizon("threshold", t=0.0, min=min(one, two), max=max(one, two)),
        Horizon("static", steps=one),
    ):
        assert spec.refusal(spec.within(wanted, available), available) == ""
