"""Single actions for many robots: who asks when, and what an error leaves."""

from __future__ import annotations

import threading
from typing import Any, cast

import numpy as np
import pytest

from rosa_client.robot.answer import Answer
from rosa_client.robot.errors import RobotError
from rosa_client.robot.group import GroupQueue, RobotGroup

PATIENCE_S = 10.0


class Group:
    """Robot n answers `horizons[n]` rows, which count the calls."""

    def __init__(self, *horizons: int) -> None:
        self.horizons, self.count = horizons, len(horizons)
        self.asked: list[list[int]] = []
        self.fails = False
        self.name = "actions"  # of what it answers

    def infer(self, observations: dict[int, Any], **how: Any) -> dict[int, Answer]:
        self.asked.append(sorted(observations))
        if self.fails:
            raise RobotError("silent", "nobody is there")
        answers = {}
        for number in observations:
            actions = np.full((self.horizons[number], 2), len(self.asked), np.float32)
            answers[number] = Answer({self.name: actions}, "", "", 0, 1.0, 1.0, 1.0, 1)
        return answers


def queue_of(group: Group, steps: int = 0) -> GroupQueue:
    return GroupQueue(cast(RobotGroup, group), steps)


def test_only_robots_that_have_used_up_their_chunk_ask() -> None:
    group = Group(1, 3)
    queue = queue_of(group)
    rows = [queue.next(["a", "b"])[:, 0].tolist() for _ in range(4)]
    assert group.asked == [[0, 1], [0], [0], [0, 1]]
    assert rows == [[1, 1], [2, 1], [3, 1], [4, 4]]


def test_steps_bound_how_much_of_a_chunk_is_used() -> None:
    group = Group(1, 3)
    queue = queue_of(group, steps=2)
    for _ in range(3):
        queue.next(["a", "b"])
    assert group.asked == [[0, 1], [0], [0, 1]]


def test_after_an_error_nothing_of_an_older_chunk_is_handed_out() -> None:
    group = Group(1, 9)
    queue = queue_of(group)
    queue.next(["a", "b"])
    group.fails = True
    with pytest.raises(RobotError):
        queue.next(["a", "b"])
    group.fails = False
    assert queue.next(["a", "b"])[:, 0].tolist() == [3, 3]


def test_an_answer_without_actions_is_such_an_error_too() -> None:
    group = Group(1, 9)
    queue = queue_of(group)
    queue.next(["a", "b"])
    group.name = "verdicts"
    with pytest.raises(RobotError):
        queue.next(["a", "b"])
    group.name = "actions"
    assert queue.next(["a", "b"])[:, 0].tolist() == [3, 3]


def test_an_episode_of_one_robot_begins_with_a_new_chunk() -> None:
    group = Group(9, 9)
    queue = queue_of(group)
    queue.next(["a", "b"])
    queue.clear(1)
    assert queue.next(["a", "b"])[:, 0].tolist() == [1, 2]


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(ValueError, match="steps: expected 0 or more"):
        queue_of(Group(1), steps=-1)
    with pytest.raises(ValueError, match="expected 2 observations, got 1"):
        queue_of(Group(1, 1)).next(["a"])
    with pytest.raises(ValueError, match="count: expected 1 or more"):
        RobotGroup("tcp://127.0.0.1:1", "pick", 0)
    with (
        RobotGroup("tcp://127.0.0.1:1", "pick", 2) as group,
        pytest.raises(ValueError, match="robots 0 to 1"),
    ):
        group.infer({2: {}})


class Noticed(dict[str, Any]):
    """An observation that tells when it is looked at."""

    def __init__(self, looked: threading.Event) -> None:
        super().__init__(joint_position=np.zeros(7, np.float32))
        self._looked = looked

    def items(self) -> Any:
        self._looked.set()
        return super().items()


def test_a_call_that_another_thread_waits_for_ends_when_the_group_is_closed() -> None:
    for _ in range(20):  # who was first was chance
        group, begun, causes = RobotGroup("tcp://127.0.0.1:1", "pick", 8), threading.Event(), list[str]()

        def asks(group: RobotGroup = group, begun: Any = begun, causes: list[str] = causes) -> None:
            try:
                group.infer(dict.fromkeys(range(8), Noticed(begun)))
            except RobotError as error:
                causes.append(error.cause)

        asking = threading.Thread(target=asks, daemon=True)
        asking.start()
        assert begun.wait(PATIENCE_S)
        group.close()
        asking.join(PATIENCE_S)
        assert causes == ["closed"]
