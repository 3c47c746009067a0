"""Replayed tasks: what they wait for, and which server answers."""

from __future__ import annotations

import pytest

from rosa_contract.gateway import ORDERS, Gateway
from rosa_server.serving.core.batch_profile import BatchProfile
from rosa_server.serving.core.order import FirstCome, order_of
from rosa_sim.kairos.replay import Replay, poisson
from rosa_sim.kairos.tiers import Tier, assign
from rosa_sim.kairos.traces import WORKLOADS, Task, tasks_of

PROFILE = BatchProfile({1: 100.0, 2: 180.0})


def edge() -> Tier:
    return Tier("edge", PROFILE, 2)


def cloud() -> Tier:
    return Tier("cloud", BatchProfile({1: 50.0, 2: 90.0}), 2, link_s=0.1)


def test_a_lone_robot_that_calls_ahead_waits_for_its_first_answer_only() -> None:
    task = Task((1.0, 0.5, 0.5))
    assert Replay(FirstCome(), edge(), ahead_s=0.1).arriving([(5.0, task)]).latencies_s == pytest.approx(
        (2.1,)
    )
    assert Replay(FirstCome(), edge()).arriving([(5.0, task)]).latencies_s == pytest.approx((2.3,))


def test_the_way_to_the_cloud_and_back_is_part_of_every_round() -> None:
    outcome = Replay(FirstCome(), cloud()).arriving([(0.0, Task((1.0, 1.0)))])
    assert outcome.latencies_s == pytest.approx((2.0 + 2 * 0.25,))


def test_generation_that_takes_longer_than_execution_sets_the_pace() -> None:
    outcome = Replay(FirstCome(), edge(), ahead_s=0.1).arriving([(0.0, Task((0.05, 0.05, 0.05)))])
    assert outcome.latencies_s == pytest.approx((0.35,))


@pytest.mark.parametrize("name", ORDERS)
def test_every_task_ends_once_with_every_call_and_never_sooner_than_alone(name: str) -> None:
    tasks = tasks_of(WORKLOADS[0], 40, True, 0)
    outcome = Replay(order_of(Gateway(order=name)), edge(), cloud()).arriving(poisson(tasks, 3.0, 0))
    assert len(outcome.latencies_s) == 40
    assert outcome.calls == sum(len(task.executions_s) for task in tasks)
    shortest_s = sorted(sum(task.executions_s) for task in tasks)
    assert all(
        took_s >= least_s for took_s, least_s in zip(sorted(outcome.latencies_s), shortest_s, strict=True)
    )
    again = Replay(order_of(Gateway(order=name)), edge(), cloud()).arriving(poisson(tasks, 3.0, 0))
    assert again == outcome, "the same seed gives the same result"


def test_robots_work_through_the_tasks_back_to_back() -> None:
    outcome = Replay(FirstCome(), edge()).back_to_back([Task((1.0,))] * 6, 2)
    assert len(outcome.latencies_s) == 6
    assert outcome.end_s == pytest.approx(3 * 1.1 + 0.5)


def test_calls_go_to_the_cloud_only_where_that_is_sooner_than_the_edge_would_begin() -> None:
    calls = list(range(10))
    near, far = edge(), cloud()
    assert assign(0.0, calls, near, None) == ([0, 1], [])
    # The edge begins with calls 2 and 3 after 0.18 s, with the next ones after 0.36 s; the cloud answers after 0.25 s.
    assert assign(0.0, calls[:4], near, far) == ([0, 1], [])
    assert assign(0.0, calls, near, far) == ([0, 1], [4, 5])
    near.busy_until_s = 0.2
    assert assign(0.0, calls[:2], near, far) == ([], [])
    near.busy_until_s = 1.0
    assert assign(0.0, calls, near, far) == ([], [0, 1])
    far.busy_until_s = 0.5
    assert assign(0.0, calls, near, far) == ([], [])
