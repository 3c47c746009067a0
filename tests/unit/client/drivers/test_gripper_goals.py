"""A gripper behind an action gets few goals, and one that does not do what it is told is noticed."""

from __future__ import annotations

import pytest

from rosa_client.drivers.arms.gripper_goals import Goal, GripperGoals, Result

OPEN_M = 0.08


@pytest.fixture
def goals() -> GripperGoals:
    return GripperGoals(OPEN_M, timeout_s=3.0)


def close(goals: GripperGoals, at_s: float = 0.0) -> Goal:
    goal = goals.wanted(at_s, 0.0, OPEN_M)
    assert goal is not None and goal.closing
    return goal


def test_a_width_that_stays_is_one_goal(goals: GripperGoals) -> None:
    sent = [goals.wanted(0.01 * i, 0.0, OPEN_M) for i in range(100)]
    assert [goal for goal in sent if goal] == [Goal(1, 0.0, True)]


def test_where_it_stands_already_needs_no_goal(goals: GripperGoals) -> None:
    assert goals.wanted(0.0, OPEN_M, OPEN_M - 0.001) is None


def test_a_changing_width_is_at_most_ten_goals_a_second(goals: GripperGoals) -> None:
    sent = [goals.wanted(0.01 * i, OPEN_M - 0.0008 * i, OPEN_M) for i in range(100)]
    assert 8 <= len([goal for goal in sent if goal]) <= 10


def test_a_gripper_that_is_closed_in_small_steps_is_closed_in_the_end(goals: GripperGoals) -> None:
    """Its last step may be too small for a goal, but a thin part is between the fingers only when they are closed."""
    told = [0.04, 0.02, 0.003, 0.0, 0.0, 0.001, 0.0, 0.0]
    sent = [goals.wanted(float(i), width_m, 0.003) for i, width_m in enumerate(told)]
    assert [goal.width_m for goal in sent if goal] == [0.04, 0.02, 0.003, 0.0]


def test_a_grasp_is_no_fault(goals: GripperGoals) -> None:
    goals.ended(Result(close(goals).number, reached=False, stalled=True), measured_m=0.04)
    assert goals.fault == ""


def test_closing_again_on_what_is_held_is_no_fault(goals: GripperGoals) -> None:
    goals.ended(Result(close(goals).number, reached=False, stalled=True), measured_m=0.04)
    again = goals.wanted(1.0, 0.02, 0.04)
    assert again is not None
    goals.ended(Result(again.number, reached=False, stalled=True), measured_m=0.04)
    assert goals.fault == ""


def test_fingers_that_do_not_close_are_a_fault(goals: GripperGoals) -> None:
    goals.ended(Result(close(goals).number, reached=False, stalled=True), measured_m=OPEN_M)
    assert goals.fault == "the gripper does not move: it stands at 0.080 m, asked for 0.000 m"
    assert goals.wanted(9.0, 0.05, OPEN_M) is None, "a broken gripper gets no goal"
    goals.recover()
    assert goals.fault == ""
    assert goals.wanted(9.0, 0.0, OPEN_M) is not None, "an operator has looked after it"


def test_fingers_that_do_not_open_are_a_fault(goals: GripperGoals) -> None:
    goal = goals.wanted(0.0, OPEN_M, 0.04)
    assert goal is not None and not goal.closing
    goals.ended(Result(goal.number, reached=False, stalled=True), measured_m=0.04)
    assert "does not move" in goals.fault


def test_a_goal_that_ends_nowhere_is_a_fault(goals: GripperGoals) -> None:
    goals.ended(Result(close(goals).number, reached=False, stalled=False), measured_m=0.03)
    assert goals.fault == "the gripper did not reach 0.000 m: it stands at 0.030 m"


def test_a_refused_goal_is_a_fault_in_the_words_of_the_gripper(goals: GripperGoals) -> None:
    goals.ended(Result(close(goals).number, False, False, "not homed"), measured_m=OPEN_M)
    assert goals.fault == "the gripper refused 0.000 m: not homed"


def test_a_goal_without_a_result_is_a_fault(goals: GripperGoals) -> None:
    close(goals)
    goals.check(2.9)
    assert goals.fault == ""
    goals.check(3.1)
    assert goals.fault == "no result from the gripper for 3 s; it was asked for 0.000 m"


def test_a_gripper_that_was_halted_gets_no_goal_until_it_goes_on(goals: GripperGoals) -> None:
    goals.halt()
    assert goals.wanted(0.0, 0.0, OPEN_M) is None
    goals.go_on()
    close(goals, 0.1)


def test_a_goal_that_was_dropped_has_no_result_and_may_be_wanted_again(goals: GripperGoals) -> None:
    close(goals)
    goals.drop()
    goals.check(9.0)
    assert goals.fault == "", "nobody waits for it"
    close(goals, 9.0)


def test_the_end_of_a_replaced_goal_means_nothing(goals: GripperGoals) -> None:
    first = close(goals)
    assert goals.wanted(0.2, OPEN_M, 0.05) is not None
    goals.ended(Result(first.number, reached=False, stalled=False, error="replaced"), measured_m=0.05)
    assert goals.fault == ""
