"""The last check before a driver sends refuses whatever leaves a limit, and passes what the player makes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_client.motion.arm_orders import Command, Setpoint
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.refusal import Refusal
from rosa_client.motion.setpoint_filter import SetpointFilter
from rosa_client.motion.setpoint_guard import SetpointGuard
from rosa_contract.config.robot import load_robot

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")
MOTION = MotionLimits.of(SPEC)
HOME = np.array(SPEC.home_rad)
RATE_HZ = 100.0


@pytest.fixture
def guard() -> SetpointGuard:
    made = SetpointGuard(MOTION, RATE_HZ)
    made.begin(HOME)
    return made


def at(q_rad: np.ndarray, rest_rad: np.ndarray | None = None) -> Setpoint:
    return Setpoint(q_rad, np.array([0.04]), q_rad if rest_rad is None else rest_rad, 0.2)


def joint(number: int, by_rad: float) -> np.ndarray:
    q_rad = HOME.copy()
    q_rad[number - 1] += by_rad
    return q_rad


def cause(checked: Command | Refusal) -> str:
    return checked.cause if isinstance(checked, Refusal) else ""


DOWN = HOME + np.array([0, 0.9, 0, 0, 0, 0, 0])  # into the table


@pytest.mark.parametrize(
    ("setpoint", "expected"),
    [
        (at(HOME), ""),
        (at(joint(1, 1e-5)), ""),
        (at(joint(4, np.nan)), "setpoint_not_finite"),
        (at(HOME, joint(4, np.inf)), "setpoint_not_finite"),
        (at(HOME[:6]), "setpoint_not_finite"),
        (at(joint(4, 3.0)), "setpoint_position"),
        (at(HOME, joint(4, 3.0)), "setpoint_position"),
        (at(joint(1, 0.03)), "setpoint_velocity"),
        (at(joint(1, 0.01)), "setpoint_acceleration"),
        (at(HOME, DOWN), "setpoint_workspace"),
        (replace(at(HOME), gripper_m=np.array([0.2])), "setpoint_gripper"),
        (replace(at(HOME), gripper_m=np.array([np.nan])), "setpoint_gripper"),
        (replace(at(joint(1, 0.5)), within_s=2.0), ""),
        (replace(at(joint(1, 0.5)), within_s=0.3), "setpoint_velocity"),
        (replace(at(joint(1, 0.001)), within_s=0.012), "setpoint_acceleration"),
        (replace(at(DOWN), within_s=10.0), "setpoint_workspace"),
    ],
)
def test_each_limit_has_a_cause(guard: SetpointGuard, setpoint: Setpoint, expected: str) -> None:
    assert cause(guard.check(setpoint)) == expected


def test_jerk_is_a_limit_of_its_own() -> None:
    """An acceleration that a joint may have, all at once, at a rate at which that is too sudden."""
    guard = SetpointGuard(MOTION, 2000.0)
    guard.begin(HOME)
    step = 0.9 * SPEC.limits.acceleration_rad_s2[0] / 2000.0**2
    assert cause(guard.check(at(joint(1, step)))) == "setpoint_jerk"


def test_what_was_refused_once_is_followed_by_nothing(guard: SetpointGuard) -> None:
    first = guard.check(at(joint(1, 0.03)))
    assert guard.check(at(HOME)) is first is guard.refusal
    guard.begin(HOME)
    assert cause(guard.check(at(HOME))) == ""


def test_an_arm_is_not_led_elsewhere_in_mid_motion(guard: SetpointGuard) -> None:
    for number in range(1, 30):
        assert cause(guard.check(at(joint(1, 2e-5 * number**2)))) == ""
    assert cause(guard.check(replace(at(HOME), within_s=2.0))) == "setpoint_velocity"


def test_an_arm_that_begins_beyond_a_limit_may_come_in_and_not_go_out() -> None:
    guard = SetpointGuard(MOTION, RATE_HZ)
    beyond = HOME.copy()
    beyond[3] = SPEC.limits.position_max_rad[3] + 0.03
    guard.begin(beyond)
    inward = beyond.copy()
    inward[3] -= 1e-4
    assert cause(guard.check(at(beyond))) == ""
    assert cause(guard.check(at(inward))) == ""
    assert cause(guard.check(at(beyond))) == "setpoint_position"


@given(
    st.lists(st.tuples(*[st.floats(-0.3, 0.3)] * 7), min_size=1, max_size=5),
    st.lists(st.sampled_from([1.0, 0.5, 0.05]), min_size=1, max_size=5),
)
def test_whatever_the_filter_makes_of_targets_passes(
    shifts: list[tuple[float, ...]], scales: list[float]
) -> None:
    limits = MotionLimits(SPEC.limits, [SPEC.gripper])  # the workspace is the player's to keep
    guard, path = SetpointGuard(limits, RATE_HZ), SetpointFilter(SPEC.limits, RATE_HZ)
    guard.begin(HOME)
    path.reset(HOME)
    for number, shift in enumerate(shifts):
        path.scale = scales[number % len(scales)]
        for _ in range(20):
            q_rad = path.step(HOME + np.array(shift))
            assert cause(guard.check(Setpoint(q_rad, np.array([0.04]), path.goes_to, path.stop_s))) == ""
