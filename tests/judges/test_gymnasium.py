"""Real environments of gymnasium, single and vectors, take their actions from ROSA through `RosaEnv`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from rosa_client import RosaEnv
from tests.system.server_harness import Server, serving

OPTIONS = {"state": {"cart": 4}, "horizon": 3, "dof": 2, "latency_ms": 20.0}
HOW: dict[str, Any] = {
    "observe": lambda seen: {"cart": seen},
    "act": lambda row: int(row[0] > 0),
    "deadline_ms": 20_000,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server"), options=OPTIONS) as one:
        yield one


def test_a_single_environment_plays_episodes(server: Server) -> None:
    with RosaEnv(gymnasium.make("CartPole-v1"), server.endpoint, "pick", **HOW) as env:
        ends = 0
        env.reset(seed=1)
        for _ in range(40):
            *_, terminated, truncated, _ = env.step()
            if terminated or truncated:
                ends += 1
                env.reset()
        assert ends >= 2  # it always pushes to the left, and falls after some ten steps


def test_each_environment_of_a_vector_begins_anew_by_itself(server: Server) -> None:
    with RosaEnv(gymnasium.make_vec("CartPole-v1", 4), server.endpoint, "pick", **HOW) as env:
        seen, _ = env.reset(seed=1)
        ends = np.zeros(4, int)
        for _ in range(40):
            seen, reward, terminated, truncated, _ = env.step()
            ends += terminated | truncated
            assert seen.shape == (4, 4) and reward.shape == (4,)
        assert (ends >= 2).all()
