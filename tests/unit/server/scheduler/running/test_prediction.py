"""What robots are predicted to do when a schedule is carried out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_contract.policies import PUBLISHED
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.running.handover import hand_over
from rosa_server.scheduler.running.prediction import Prediction
from rosa_server.scheduler.running.prediction import predicted as predicted_of
from tests.unit.server.scheduler.factories import LIBRARY
from tests.unit.server.scheduler.running.test_policies import factory, placed, scheduled


def prediction(robots: int, **policies: object) -> Prediction:
    return predicted_of(placed(robots, **policies), scheduled(robots), problem_from(factory(robots)))


def predicted(robots: int, **policies: object) -> float:
    return prediction(robots, **policies).throughput_hz


def test_as_published_it_is_what_the_schedule_says() -> None:
    as_paper = replace(factory(32), policies=PUBLISHED)
    placement, _ = hand_over(as_paper, scheduled(32), "plan", LIBRARY)
    found = predicted_of(placement, scheduled(32), problem_from(as_paper))
    assert found.throughput_hz == scheduled(32).action_throughput_hz
    assert found.meet == {}, "nothing was played through"


@pytest.mark.parametrize("robots", [8, 16, 32, 64])
def test_never_less_than_the_schedule_and_never_more_than_idle_servers_allow(robots: int) -> None:
    found = predicted(robots)
    fastest_s = 0.2 + 0.0469 + 0.2326 / 10  # P4 on idle servers: action, System 1, a tenth of System 2
    assert scheduled(robots).action_throughput_hz <= found <= robots / fastest_s


def test_few_robots_on_many_servers_are_as_fast_as_idle_servers_allow() -> None:
    assert predicted(8) == pytest.approx(8 / (0.2 + 0.0469 + 0.2326 / 10 + 0.0011), rel=0.01)


def test_a_shared_queue_is_worth_something() -> None:
    assert predicted(64) > 1.02 * predicted(64, queues="routed")


def test_the_same_every_time() -> None:
    assert predicted(32) == predicted(32)


def test_where_calls_would_be_late_only_the_schedule_is_promised() -> None:
    paced = prediction(96, rates="paced")
    assert paced.meet["system1"] < 0.99
    assert paced.throughput_hz == scheduled(96).action_throughput_hz


def test_with_permits_calls_are_in_time_where_servers_are_full() -> None:
    found = prediction(96)
    assert found.holds and set(found.meet) == {"system1", "system2", "safety", "monitor"}
    assert found.throughput_hz > 3 * scheduled(96).action_throughput_hz
