"""However few steps of however wild chunks are played, the arm keeps its limits."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_client.motion.arm_orders import OrderId, Play
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.setpoint_filter import WORKING_SPEED
from tests.unit.client.motion.test_chunk_player import LIMITS, MOTION, RATE_HZ

STEP_S = 0.05
CHUNKS = st.lists(
    st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 16), st.integers(0, 15)), min_size=2, max_size=8
)


@settings(max_examples=60)
@given(CHUNKS)
def test_no_horizon_moves_the_arm_faster_than_its_limits(chunks: list[tuple[int, int, int]]) -> None:
    player = ChunkPlayer(MOTION, RATE_HZ)
    player.reset([0.0, 0.0], 0.08)
    setpoints, now_s = [], 0.0
    for number, (seed, horizon, skipped) in enumerate(chunks, start=1):
        actions = np.random.default_rng(seed).uniform([-2, -2, 0], [2, 2, 0.08], (16, 3))
        order = Play(actions, STEP_S, skip_s=skipped * STEP_S, execute_s=horizon * STEP_S)
        assert player.order(now_s, OrderId(1, number), order) is None
        for _ in range(round(horizon * STEP_S * RATE_HZ)):
            player.alive(now_s, player.last)
            setpoints.append(player.update(now_s).q_rad)
            now_s += 1 / RATE_HZ
    velocity = np.diff(setpoints, axis=0) * RATE_HZ
    acceleration = np.diff(velocity, axis=0) * RATE_HZ
    jerk = np.diff(acceleration, axis=0) * RATE_HZ
    assert np.abs(velocity).max(initial=0.0) <= WORKING_SPEED * LIMITS.velocity_rad_s[0] * (1 + 1e-9)
    assert np.abs(acceleration).max(initial=0.0) <= LIMITS.acceleration_rad_s2[0] * (1 + 1e-6)
    assert np.abs(jerk).max(initial=0.0) <= LIMITS.jerk_rad_s3[0] * (1 + 1e-6)
