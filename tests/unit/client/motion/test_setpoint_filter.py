"""Whatever the targets, the setpoints keep every joint limit, and they arrive."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_client.motion.setpoint_filter import SetpointFilter
from rosa_contract.config.robot import JointLimits

PANDA = JointLimits(
    position_min_rad=(-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973),
    position_max_rad=(2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973),
    velocity_rad_s=(2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
    acceleration_rad_s2=(15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0),
    jerk_rad_s3=(7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0),
)
HOME = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])

# A command is (targets, how many periods to keep it) or a hold.
joint = st.floats(-10.0, 10.0, allow_nan=False)
commands = st.lists(
    st.tuples(st.one_of(st.none(), st.tuples(*[joint] * 7)), st.integers(1, 40)), min_size=1, max_size=12
)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    commands=commands, rate_hz=st.sampled_from([50.0, 100.0, 250.0]), scaling=st.sampled_from([0.1, 0.3, 1.0])
)
def test_any_sequence_of_targets_and_stops_keeps_all_four_limits(commands, rate_hz, scaling):
    setpoints = SetpointFilter(PANDA, rate_hz, velocity_scaling=scaling)
    setpoints.reset(HOME)
    path = [HOME] * 4
    for target, periods in commands:
        for _ in range(periods):
            path.append(setpoints.hold() if target is None else setpoints.step(target))
    q = np.array(path)
    velocity = np.diff(q, axis=0) * rate_hz
    acceleration = np.diff(velocity, axis=0) * rate_hz
    jerk = np.diff(acceleration, axis=0) * rate_hz
    assert (q >= np.array(PANDA.position_min_rad) - 1e-9).all() and (
        q <= np.array(PANDA.position_max_rad) + 1e-9
    ).all()
    assert (np.abs(velocity) <= scaling * np.array(PANDA.velocity_rad_s) + 1e-9).all()
    assert (np.abs(acceleration) <= np.array(PANDA.acceleration_rad_s2) + 1e-6).all()
    # The third difference multiplies rounding by rate_hz^3.
    assert (np.abs(jerk) <= np.array(PANDA.jerk_rad_s3) + 1e-1).all()


def test_it_arrives_at_the_target_and_then_says_so():
    setpoints = SetpointFilter(PANDA, 100.0)
    setpoints.reset(HOME)
    assert setpoints.settled
    goal = HOME + 0.4
    goal[3] = -2.0
    setpoints.step(goal)
    assert not setpoints.settled
    for _ in range(300):
        q = setpoints.step(goal)
    assert setpoints.settled
    np.testing.assert_allclose(q, goal, atol=1e-9)


def test_hold_stops_in_mid_motion_within_the_filter_length_and_does_not_run_on_to_the_target():
    setpoints = SetpointFilter(PANDA, 100.0)
    setpoints.reset(HOME)
    goal = HOME + 1.0
    goal[3] = -1.356
    for _ in range(50):
        moving = setpoints.step(goal)
    for _ in range(int(4 * setpoints.delay_s * 100.0)):
        stopped = setpoints.hold()
    assert setpoints.settled
    assert np.abs(stopped - goal).max() > 0.1
    assert np.abs(stopped - moving).max() < 0.3 * 2.61 * 2 * setpoints.delay_s + 1e-9


def test_a_jump_moves_all_joints_along_one_straight_line():
    setpoints = SetpointFilter(PANDA, 100.0)
    setpoints.reset(HOME)
    goal = HOME + np.array([1.0, 0.5, -0.5, 0.25, 0.1, 0.2, 0.3])
    for _ in range(60):
        done = (setpoints.step(goal) - HOME) / (goal - HOME)
        np.testing.assert_allclose(done, done[0], atol=1e-9)


def test_bad_use_is_refused_with_what_came():
    setpoints = SetpointFilter(PANDA, 100.0)
    with pytest.raises(RuntimeError, match="reset"):
        setpoints.step(HOME)
    setpoints.reset(HOME)
    with pytest.raises(ValueError, match="nan"):
        setpoints.step([float("nan")] * 7)
    with pytest.raises(ValueError, match="7 finite"):
        setpoints.step([0.0] * 6)
    with pytest.raises(ValueError, match="velocity_scaling"):
        SetpointFilter(PANDA, 100.0, velocity_scaling=0.0)
    with pytest.raises(ValueError, match="position_min_rad must be below"):
        SetpointFilter(JointLimits((1.0,), (0.0,), (1.0,), (1.0,), (1.0,)), 100.0)
