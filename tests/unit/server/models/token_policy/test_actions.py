"""Seven tokens hold what the arm does in 400 ms: points to half a bin, the gripper's switch to the step."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rosa_server.models.token_policy.actions import (
    ACTION_TOKENS,
    BINS,
    HIGH_M,
    LOW_M,
    MIDDLE,
    REACH_M,
    STEPS,
    from_bins,
    from_tokens,
    to_bins,
    to_tokens,
)

TOOL_M = np.array([[0.5, 0.0, 0.3]])
moves = hnp.arrays(np.float64, (2, 3), elements=st.floats(-0.17, 0.17))


@given(hnp.arrays(np.float64, 20, elements=st.floats(-REACH_M, REACH_M)))
def test_a_number_comes_back_to_half_a_bin(values):
    back = from_bins(to_bins(values))
    assert np.abs(back - values).max() <= REACH_M / BINS + 1e-12


@given(hnp.arrays(np.float64, 20, elements=st.floats(-9, 9)))
def test_every_number_is_a_bin_and_what_is_outside_goes_to_the_last(values):
    tokens = to_bins(values)
    assert ((tokens >= 0) & (tokens < BINS)).all()
    assert (tokens[values > REACH_M] == BINS - 1).all() and (tokens[values < -REACH_M] == 0).all()


@given(moves, st.integers(0, 2 * STEPS - 1))
def test_a_path_through_two_points_comes_back(points, grip):
    tokens = np.concatenate([to_bins(points).reshape(1, 6), [[grip]]], axis=1)
    path = from_tokens(tokens, TOOL_M)
    assert path.shape == (1, STEPS, 4)
    np.testing.assert_array_equal(to_tokens(path, TOOL_M)[0, 6], grip)
    inside = np.clip(points + TOOL_M, LOW_M, HIGH_M)
    assert np.abs(path[0, [STEPS - 1, MIDDLE - 1], :3] - inside).max() <= REACH_M / BINS + 1e-12


@given(hnp.arrays(np.int64, (3, ACTION_TOKENS), elements=st.integers(-5, 600)))
def test_any_tokens_give_a_path_within_the_workspace(tokens):
    path = from_tokens(tokens, np.repeat(TOOL_M, 3, axis=0))
    assert np.isfinite(path).all()
    assert (path[..., :3] >= LOW_M - 1e-9).all() and (path[..., :3] <= HIGH_M + 1e-9).all()
    assert set(np.unique(path[..., 3])) <= {0.0, 0.08}


def test_the_path_is_straight_to_the_middle_and_straight_to_the_end():
    path = np.zeros((1, STEPS, 4))
    path[0, :, :3] = TOOL_M + np.arange(1, STEPS + 1)[:, None] * [0.02, 0.0, -0.01]
    path[0, :, 3] = [0.08] * 5 + [0.0] * 3
    back = from_tokens(to_tokens(path, TOOL_M), TOOL_M)
    assert np.abs(back[..., :3] - path[..., :3]).max() < 2 * REACH_M / BINS
    np.testing.assert_array_equal(back[..., 3], path[..., 3])
