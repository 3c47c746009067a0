"""Joint states that are wrong on purpose."""

from __future__ import annotations

import numpy as np

from rosa_sim.controller.wrong_states import OFF_RAD, WrongStates

Q = np.arange(7.0)


def told(kind: str) -> list[tuple[float, float]]:
    """First joint and stamp of what is published during a second in which the arm stands."""
    wrong = WrongStates()
    wrong.turn(kind)
    states = [wrong.state(Q, 100.0 + 0.01 * number) for number in range(100)]
    assert all(np.array_equal(q_rad[1:], Q[1:]) for q_rad, _ in states)
    return [(float(q_rad[0]), stamp_s) for q_rad, stamp_s in states]


def test_without_a_fault_of_measurement_all_is_true() -> None:
    for kind in ("", "reflex"):
        assert told(kind) == [(0.0, 100.0 + 0.01 * number) for number in range(100)]


def test_one_sample_is_wrong() -> None:
    positions = [position for position, _ in told("wrong_sample")]
    assert positions == [OFF_RAD, *[0.0] * 99]


def test_a_joint_jumps_and_returns() -> None:
    positions = [position for position, _ in told("joint_jump")]
    assert set(positions) == {0.0, OFF_RAD}
    assert 8 <= np.count_nonzero(np.diff(positions)) <= 10


def test_stamps_stand_with_the_first_position() -> None:
    wrong = WrongStates()
    wrong.turn("frozen_stamps")
    assert wrong.state(Q, 1.0)[1] == 1.0
    q_rad, stamp_s = wrong.state(Q + 1.0, 2.0)
    assert stamp_s == 1.0 and np.array_equal(q_rad, Q)
    wrong.turn("")
    assert wrong.state(Q + 1.0, 3.0)[1] == 3.0
