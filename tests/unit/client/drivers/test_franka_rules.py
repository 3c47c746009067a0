"""What the `franka` driver makes of what it hears: faults in words with what to do, the steps of a recovery."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rosa_client.drivers.arms.franka_rules import (
    CLEAR_ERROR,
    CONNECT,
    ERRORS,
    FOLLOW,
    FOR_A_PERSON,
    IDLE,
    MOVE,
    REFLEX,
    ROW_S,
    USER_STOPPED,
    FrankaLink,
    Heard,
    error_words,
    hand_fault,
    next_step,
    rows,
    why_not,
    why_stopped,
)
from rosa_contract.config.arms import FrankaSettings
from rosa_contract.config.robot import load_robot

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "fr3_franka.yaml")
SETTINGS = FrankaSettings("172.16.0.2")
Q = np.array(SPEC.home_rad)


def heard(mode: str = MOVE, errors: tuple[str, ...] = (), robot_s: float = 0.0) -> Heard:
    return Heard(Q, np.zeros(7), np.ones(7), mode, errors, robot_s)


@pytest.fixture
def link() -> FrankaLink:
    made = FrankaLink()
    made.hear(0.0, heard())
    made.follows()
    return made


def test_a_measurement_is_handed_on_with_its_age(link: FrankaLink) -> None:
    link.hear(1.0, heard(robot_s=1.0))
    state = link.state(1.25, np.array([0.03]), "")
    assert (state.gripper_m.tolist(), state.age_s, state.fault) == ([0.03], 0.25, "")
    assert state.q_rad.tolist() == Q.tolist()
    assert state.effort_nm is not None and state.effort_nm.tolist() == [1.0] * 7


def test_the_same_state_again_does_not_get_younger(link: FrankaLink) -> None:
    """The library repeats its newest state while the network is silent."""
    for now_s in (0.1, 0.2, 0.3):
        link.hear(now_s, heard())
    assert link.state(0.3, 0.0, "").age_s == pytest.approx(0.3)


def test_the_first_reason_of_a_stop_stays_until_the_arm_follows_again(link: FrankaLink) -> None:
    link.stopped("a reflex")
    link.stopped("the connection is lost")
    assert link.fault() == "a reflex"
    link.recovering(CLEAR_ERROR)
    assert link.fault() == "recovering: clear the error"
    link.follows()
    assert link.fault() == ""


def test_after_a_stop_old_setpoints_count_no_more(link: FrankaLink) -> None:
    link.sent(Q + 0.4)
    link.stopped("a reflex")
    link.follows()
    assert (link.fault(), link.setpoint) == ("", None)


def test_every_known_error_says_what_to_do() -> None:
    assert all(words for words in ERRORS.values())
    assert "docs/franka.md" in error_words(["communication_constraints_violation"])
    assert error_words(["joint_reflex", "new_error"]).endswith("; new_error"), (
        "one that is not known is named"
    )


@pytest.mark.parametrize("mode", FOR_A_PERSON)
def test_what_only_a_person_can_end_is_said_instead_of_the_librarys_words(mode: str) -> None:
    assert why_stopped(heard(mode, ("joint_reflex",)), "aborted") == FOR_A_PERSON[mode]
    assert why_not(heard(mode)) == FOR_A_PERSON[mode]


def test_a_reflex_is_named_and_anything_else_is_what_the_library_said() -> None:
    assert why_stopped(heard(REFLEX, ("joint_reflex",)), "aborted").startswith(
        "the arm was stopped by a reflex: joint_reflex (contact"
    )
    assert why_stopped(heard(IDLE), "aborted") == "the arm ended its motion: aborted"


def test_a_recovery_does_only_what_is_needed() -> None:
    assert next_step(False, False, heard(REFLEX)) == CONNECT, "what was heard before may be over"
    assert next_step(True, False, heard(REFLEX)) == CLEAR_ERROR
    assert next_step(True, False, heard(IDLE, ("joint_reflex",))) == CLEAR_ERROR
    assert next_step(True, False, heard(IDLE)) == FOLLOW
    assert next_step(True, True, heard(MOVE)) == ""


def test_an_arm_that_another_program_moves_is_left_alone() -> None:
    assert why_not(heard(MOVE)) == "another program moves the arm: end it"
    assert why_not(heard(REFLEX)) == why_not(heard(IDLE)) == why_not(None) == ""
    assert "activation device" in why_not(heard(USER_STOPPED))


def test_the_way_to_a_setpoint_is_divided_into_steps_of_two_milliseconds() -> None:
    way = rows(np.zeros(7), np.full(7, 0.01), 0.01)
    assert way.shape == (round(0.01 / ROW_S), 7)
    assert way[:, 0].tolist() == pytest.approx([0.002, 0.004, 0.006, 0.008, 0.01])


def test_the_first_setpoint_is_taken_as_it_is() -> None:
    assert rows(None, Q, 0.01).tolist() == [Q.tolist()]


def test_at_a_thousand_setpoints_a_second_each_is_one_row() -> None:
    assert rows(np.zeros(7), np.ones(7), 0.001).tolist() == [[1.0] * 7]


def test_a_hand_that_was_never_homed_says_so() -> None:
    assert "homed" in hand_fault(0.0)
    assert hand_fault(0.08) == ""
