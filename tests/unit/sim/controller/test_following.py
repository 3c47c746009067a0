"""The simulated controllers follow and refuse commands as those of ros2_controllers do."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_sim.controller.following import Point, PositionFollower, TrajectoryFollower

JOINTS = ("a", "b")


def point(q: list[float], after_s: float, velocity: list[float] | None = None) -> Point:
    return Point(np.array(q), None if velocity is None else np.array(velocity), after_s)


def follower(from_desired: bool = False) -> TrajectoryFollower:
    made = TrajectoryFollower(JOINTS, from_desired)
    made.hold(np.array([0.0, 0.0]))
    return made


REST = point([0.0, 0.0], 0.0, [0.0, 0.0])


def test_positions_are_joined_by_a_straight_line_and_held_at_the_end() -> None:
    made = follower()
    made.follow(1.0, JOINTS, [point([1.0, -1.0], 0.5)], REST)
    assert made.desired(1.25) == pytest.approx([0.5, -0.5])
    assert made.desired(9.0) == pytest.approx([1.0, -1.0])


def test_an_update_that_comes_late_gets_the_beginning() -> None:
    made = follower()
    made.follow(1.0, JOINTS, [point([1.0, -1.0], 0.01)], REST)
    assert made.desired(0.9) == pytest.approx([0.0, 0.0])


def test_velocities_make_it_a_cubic_that_begins_and_ends_at_rest() -> None:
    made = follower()
    made.follow(0.0, JOINTS, [point([1.0, 0.0], 1.0, [0.0, 0.0])], REST)
    assert made.desired(0.5)[0] == pytest.approx(0.5)
    assert made.desired(0.1)[0] == pytest.approx(3 * 0.1**2 - 2 * 0.1**3)


def test_joints_may_come_in_another_order() -> None:
    made = follower()
    made.follow(0.0, ("b", "a"), [point([2.0, 1.0], 0.1)], REST)
    assert made.desired(1.0) == pytest.approx([1.0, 2.0])


@pytest.mark.parametrize(("from_desired", "begins"), [(False, 0.1), (True, 0.5)])
def test_a_new_trajectory_begins_where_the_arm_is_or_where_it_was_told_to_be(
    from_desired: bool, begins: float
) -> None:
    made = follower(from_desired)
    made.follow(0.0, JOINTS, [point([1.0, 0.0], 1.0)], REST)
    made.follow(0.5, JOINTS, [point([0.5, 0.0], 1.0)], point([0.1, 0.0], 0.0))
    assert made.desired(0.5)[0] == pytest.approx(begins)


@pytest.mark.parametrize(
    ("joints", "points", "words"),
    [
        (("a",), [point([1.0], 0.1)], "joints: expected a, b, got a"),
        (("a", "c"), [point([1.0, 1.0], 0.1)], "joints: expected a, b, got a, c"),
        (JOINTS, [], "it has no points"),
        (JOINTS, [point([1.0], 0.1)], "point 0: expected 2 finite numbers"),
        (JOINTS, [point([1.0, np.nan], 0.1)], "point 0: expected 2 finite numbers"),
        (
            JOINTS,
            [point([1.0, 1.0], 0.1), point([1.0, 1.0], 0.1)],
            "point 1: time_from_start 0.1 s is not after",
        ),
        (JOINTS, [point([1.0, 1.0], 0.0)], "point 0: time_from_start 0 s is not after"),
        (JOINTS, [point([1.0, 1.0], 0.1, [1.0, 0.0])], "the velocity at the end is not zero"),
        (JOINTS, [point([1.0, 1.0], 0.1)], ""),
    ],
)
def test_a_trajectory_that_cannot_be_followed_is_refused(
    joints: tuple[str, ...], points: list[Point], words: str
) -> None:
    refusal = follower().refusal(joints, points)
    assert words in refusal
    assert bool(words) == bool(refusal)


def test_positions_are_gone_to_at_once() -> None:
    made = PositionFollower(JOINTS)
    made.hold(np.zeros(2))
    assert "expected 2 finite positions" in made.refusal([1.0])
    assert made.refusal([1.0, 2.0]) == ""
    made.follow([1.0, 2.0])
    assert made.desired(0.0) == pytest.approx([1.0, 2.0])
