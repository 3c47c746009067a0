"""What a gymnasium environment gets from chunks: which are played, and when a new one is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rosa_client.robot import gym_env
from rosa_client.robot.answer import Answer
from rosa_client.robot.gym_env import RosaEnv


class Group:
    """Answers four rows: the pose that was seen, plus 0, 1, 2, 3."""

    def __init__(self, server: str, task: str, count: int, **how: Any) -> None:
        self.count, self.how = count, how
        self.asked: list[dict[int, float]] = []
        self.closed = False

    def infer(self, observations: dict[int, Any], **how: Any) -> dict[int, Answer]:
        self.asked.append({number: float(seen["pose"][0]) for number, seen in observations.items()})
        chunks = {n: seen["pose"] + np.arange(4.0)[:, None] for n, seen in observations.items()}
        return {n: Answer({"actions": rows}, "", "", 0, 1.0, 1.0, 1.0, 1) for n, rows in chunks.items()}

    def close(self) -> None:
        self.closed = True


class Env:
    """Its pose is where it was sent. Episodes end at 102, and begin at 100."""

    def __init__(self, count: int = 0, mode: str = "") -> None:
        if count:
            self.num_envs = count
        self.metadata = {"autoreset_mode": SimpleNamespace(name=mode)}
        self._pose = np.zeros((count or 1, 1))
        self._over = np.zeros(count or 1, bool)
        self.actions: list[Any] = []
        self.closed = False

    def _seen(self) -> Any:
        pose = self._pose.copy()
        return {"pose": pose if hasattr(self, "num_envs") else pose[0]}

    def reset(self, seed: int = 0) -> Any:
        self._pose[:, 0] = 100 - np.arange(len(self._pose))
        return self._seen(), {"seed": seed}

    def step(self, action: Any) -> Any:
        self.actions.append(np.asarray(action).ravel().tolist())
        begin = self._over.copy()  # the step after the last one only resets
        self._pose = np.where(begin[:, None], 100.0, np.reshape(action, self._pose.shape))
        self._over = (self._pose[:, 0] >= 102) & ~begin
        over = self._over if hasattr(self, "num_envs") else bool(self._over[0])
        return self._seen(), 0.0, over, np.zeros_like(over), {}

    def close(self) -> None:
        self.closed = True


class Nested(Env):
    """Shows its pose as that of an arm."""

    def _seen(self) -> Any:
        return {"arm": super()._seen()}


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym_env, "RobotGroup", Group)


def made(env: Env, **options: Any) -> tuple[RosaEnv, Group]:
    wrapped = RosaEnv(env, "tcp://nowhere:1", "pick", **options)
    group: Any = wrapped._group
    return wrapped, group


def test_a_single_environment_plays_chunks_until_they_are_used_up() -> None:
    env, group = made(Env(), steps=2, deadline_ms=300.0)
    seen, info = env.reset(seed=7)
    assert seen["pose"].tolist() == [100.0] and info == {"seed": 7} and group.how == {"deadline_ms": 300.0}
    for _ in range(3):
        env.step()
    assert env.env.actions == [[100.0], [101.0], [101.0]]  # the third is the first of the next chunk
    assert group.asked == [{0: 100.0}, {0: 101.0}]
    env.step(np.array([5.0]))  # somebody else's action, once
    assert env.env.actions[-1] == [5.0]


def test_each_environment_of_a_vector_is_a_robot_and_a_new_episode_begins_with_a_new_chunk() -> None:
    env, group = made(Env(2))
    env.reset()
    for _ in range(4):
        env.step()
    # Robot 0 ends its episode at 102 with the third step; the fourth one only resets, whatever was asked for it.
    assert [row[0] for row in env.env.actions] == [100.0, 101.0, 102.0, 102.0]
    assert [row[1] for row in env.env.actions] == [99.0, 100.0, 101.0, 102.0]
    env.step()
    assert group.asked[-1] == {
        0: 100.0,
        1: 102.0,
    }  # of the new episode, and robot 1's has ended with the chunk
    assert env.env.actions[-1][0] == 100.0


def test_names_and_actions_are_brought_into_form() -> None:
    env, group = made(Env(2), observe=lambda seen: {"pose": seen["pose"] * 2}, act=lambda row: row + 0.5)
    env.reset()
    assert env.actions().tolist() == [[200.5], [198.5]]
    assert group.asked == [{0: 200.0, 1: 198.0}]


def test_what_a_vector_shows_may_have_names_within_names() -> None:
    env, _ = made(Nested(2), observe=lambda seen: {"pose": seen["arm"]["pose"]})
    env.reset()
    assert env.actions().tolist() == [[100.0], [99.0]]


def test_a_vector_that_resets_at_once_is_asked_for_no_more_than_needed() -> None:
    env, group = made(Env(1, mode="SAME_STEP"))
    env.reset()
    for _ in range(5):
        env.step()
    assert len(group.asked) == 2


def test_it_is_the_environment_in_all_else_and_closes_both() -> None:
    with made(Env(3))[0] as env:
        assert env.num_envs == 3
        with pytest.raises(RuntimeError, match="reset the environment first"):
            env.step()
    group: Any = env._group
    assert group.closed and env.env.closed
