"""Something is between the fingers when they are told to be narrower than they are."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_client.runtime.commands import OPEN, Hold, MoveTo, Play
from rosa_client.sensing.grasp import Grasp
from rosa_contract.config.robot import GripperSpec

PANDA = GripperSpec(0.0, 0.08)


def closing(step_s: float = 0.1) -> Play:
    """Opens for three rows, then closes to 2 cm."""
    widths = [0.08, 0.08, 0.08, 0.02]
    actions = np.column_stack([np.zeros((4, 2)), widths])
    return Play(1, actions, step_s, 4 * step_s, 1)


@pytest.mark.parametrize(
    ("measured_m", "held"), [(0.04, True), (0.0215, False), (0.003, False), (0.075, True), (0.079, True)]
)
def test_a_cube_keeps_the_fingers_apart(measured_m: float, held: bool) -> None:
    grasp = Grasp([PANDA])
    grasp.order(closing(), 0.0)
    grasp.order(Hold(2), 0.4)
    assert grasp.holds([measured_m], 1.0) is held


def test_only_what_was_played_was_told() -> None:
    grasp = Grasp([PANDA])
    grasp.order(closing(), 0.0)
    grasp.order(Hold(2), 0.15)
    assert not grasp.holds([0.04], 1.0), "the chunk was stopped before it closed the fingers"


def test_a_row_after_the_last_one_played_was_not_told() -> None:
    rows = np.column_stack([np.zeros((16, 2)), [0.0] * 8 + [0.08] * 8])
    grasp = Grasp([PANDA])
    grasp.order(Play(1, rows, 0.05, 8 * 0.05, 1), 0.0)
    assert grasp.holds([0.03], 0.4) and grasp.holds([0.03], 9.0)


def test_what_is_skipped_counts_for_where_a_chunk_is() -> None:
    rows = np.column_stack([np.zeros((16, 2)), [0.08] * 10 + [0.0] * 6])
    grasp = Grasp([PANDA])
    grasp.order(Play(1, rows, 0.05, 8 * 0.05, 1, skip_s=6 * 0.05), 0.0)
    assert [grasp.commanded_m(now_s) for now_s in (0.1, 0.19, 0.2, 9.0)] == [(0.08,), (0.08,), (0.0,), (0.0,)]


def test_a_slowed_arm_is_behind() -> None:
    grasp = Grasp([PANDA], velocity_scale=0.5)
    grasp.order(closing(), 0.0)
    assert grasp.commanded_m(0.4) == (0.08,)
    assert grasp.commanded_m(0.7) == (0.02,)


def test_a_move_keeps_or_opens() -> None:
    grasp = Grasp([PANDA])
    grasp.order(closing(), 0.0)
    grasp.order(MoveTo(2, "safe"), 1.0)
    assert grasp.holds([0.04], 2.0)
    grasp.order(MoveTo(3, "home", OPEN), 2.0)
    assert not grasp.holds([0.04], 3.0)


def test_something_as_wide_as_the_gripper_is_held_by_fingers_that_were_told_to_close() -> None:
    grasp = Grasp([PANDA])
    grasp.order(Play(1, np.array([[0.0, 0.0, 0.05]]), 0.1, 0.1, 1), 0.0)
    assert grasp.holds([0.075], 1.0)


def test_what_nobody_knows_counts_as_held() -> None:
    assert Grasp([PANDA]).holds([0.04], 0.0), "what were they told?"
    assert not Grasp([PANDA]).holds([0.08], 0.0), "wide open"
    assert Grasp([PANDA]).holds([None], 0.0), "how far apart are they?"
    opened = Grasp([PANDA])
    opened.order(MoveTo(1, "home", OPEN), 0.0)
    assert opened.holds([None], 1.0), "told to open, but nobody knows whether they did"


def test_a_robot_without_a_gripper_holds_nothing() -> None:
    """Otherwise each retry would go down to put down what it does not hold."""
    grasp = Grasp([])
    grasp.order(MoveTo(1, "home", OPEN), 0.0)
    assert not grasp.holds([], 0.1)


def test_of_several_grippers_any_may_hold_something() -> None:
    grasp = Grasp([PANDA, GripperSpec(0.0, 0.04)])
    grasp.order(Play(1, np.array([[0.0, 0.0, 0.08, 0.0]]), 0.1, 0.1, 1), 0.0)
    assert grasp.commanded_m(1.0) == (0.08, 0.0)
    assert not grasp.holds([0.08, 0.002], 1.0)
    assert grasp.holds([0.08, 0.02], 1.0)
    assert grasp.holds([None, 0.002], 1.0), "how far apart are they?"
    grasp.order(MoveTo(2, "home", OPEN), 1.0)
    assert not grasp.holds([0.08, 0.04], 2.0)
