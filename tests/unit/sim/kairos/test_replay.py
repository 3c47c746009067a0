"""Replayed tasks: what they wait for, which server answers, and what the server is told."""

from __future__ import annotations

import pytest

from rosa_contract.config.gateway import FIRST_COME, ORDERS, REMAINING_WORK
from rosa_sim.kairos.replay import Replay, Tier, poisson
from rosa_sim.kairos.traces import WORKLOADS, Task, tasks_of

EDGE = Tier({1: 100.0, 2: 180.0}, 2)
CLOUD = Tier({1: 50.0, 2: 90.0}, 2, link_s=0.1)


def test_a_lone_robot_that_calls_ahead_waits_for_its_first_answer_only() -> None:
    task = Task((1.0, 0.5, 0.5))
    ahead = Replay(FIRST_COME, EDGE, ahead_s=0.1).arriving([(5.0, task)])
    assert ahead.latencies_s == pytest.approx([2.1])
    assert ahead.stalls_s == pytest.approx([0.1])
    later = Replay(FIRST_COME, EDGE).arriving([(5.0, task)])
    assert later.latencies_s == pytest.approx([2.3])
    assert later.stalls_s == pytest.approx([0.3])


def test_the_way_to_the_cloud_and_back_is_part_of_every_round() -> None:
    outcome = Replay(FIRST_COME, CLOUD).arriving([(0.0, Task((1.0, 1.0)))])
    assert outcome.latencies_s == pytest.approx([2.0 + 2 * 0.25])


def test_generation_that_takes_longer_than_execution_sets_the_pace() -> None:
    outcome = Replay(FIRST_COME, EDGE, ahead_s=0.1).arriving([(0.0, Task((0.05, 0.05, 0.05)))])
    assert outcome.latencies_s == pytest.approx([0.35])


@pytest.mark.parametrize("name", ORDERS)
def test_every_task_ends_once_with_every_call_and_never_sooner_than_alone(name: str) -> None:
    tasks = tasks_of(WORKLOADS[0], 40, True, 0)
    outcome = Replay(name, EDGE, CLOUD).arriving(poisson(tasks, 3.0, 0))
    assert len(outcome.latencies_s) == 40
    assert outcome.calls == sum(len(task.executions_s) for task in tasks)
    assert 0 < outcome.in_cloud < outcome.calls
    shortest_s = sorted(sum(task.executions_s) for task in tasks)
    assert all(took_s >= min_s for took_s, min_s in zip(sorted(outcome.latencies_s), shortest_s, strict=True))
    again = Replay(name, EDGE, CLOUD).arriving(poisson(tasks, 3.0, 0))
    assert again == outcome, "the same seed gives the same result"


def test_robots_work_through_the_tasks_back_to_back() -> None:
    outcome = Replay(FIRST_COME, EDGE).back_to_back([Task((1.0,))] * 6, 2)
    assert len(outcome.latencies_s) == 6
    assert outcome.end_s == pytest.approx(3 * 1.1 + 0.5)


def test_a_robot_that_waits_for_minutes_is_not_taken_for_one_that_has_left() -> None:
    slow = Tier({1: 20_000.0}, 1)
    outcome = Replay(FIRST_COME, slow).arriving([(0.0, Task((0.1,)))] * 3)
    assert outcome.latencies_s == pytest.approx([20.1, 40.1, 60.1])
    assert outcome.longest_wait_s == pytest.approx(60.0)


def test_the_server_learns_from_every_task_that_ended() -> None:
    tasks = [Task((1.0, 0.5), "short"), Task((1.0,) * 4, "long")] * 4
    replay = Replay(REMAINING_WORK, EDGE, ahead_s=0.1)
    replay.back_to_back(tasks, 2)
    assert len(replay.core.lengths) == 8
    assert set(replay.core.lengths.to_data()) == {"work: short", "work: long"}
    assert replay.core.lengths.to_data()["work: long"][0] == pytest.approx([4.0, 4])
