"""What robots are predicted to do when a schedule is carried out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from rosa_contract.config.policies import PUBLISHED
from rosa_server.plan.placement import Placement
from rosa_server.scheduler.choosing import prediction as prediction_module
from rosa_server.scheduler.choosing.candidates import Choice
from rosa_server.scheduler.choosing.choice import choose
from rosa_server.scheduler.choosing.prediction import (
    GLANCE_S,
    MAX_ROBOTS,
    RELIED_ON_S,
    SETTLE_S,
    TOLD_S,
    Prediction,
    played,
    slice_of,
)
from rosa_server.scheduler.choosing.prediction import predicted as predicted_of
from rosa_server.scheduler.problem import Problem, problem_from
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import hand_over
from rosa_server.simulator.scripted import ScriptedFleet
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


@pytest.mark.slow
@pytest.mark.parametrize("robots", [8, 16, 32, 64])
def test_never_less_than_the_schedule_and_never_more_than_idle_servers_allow(robots: int) -> None:
    found = predicted(robots)
    fastest_s = 0.2 + 0.0469 + 0.2326 / 10  # P4 on idle servers: action, System 1, a tenth of System 2
    assert scheduled(robots).action_throughput_hz <= found <= robots / fastest_s


def test_few_robots_on_many_servers_are_as_fast_as_idle_servers_allow() -> None:
    assert predicted(8) == pytest.approx(8 / (0.2 + 0.0469 + 0.2326 / 10 + 0.0011), rel=0.01)


@pytest.mark.slow
def test_a_shared_queue_is_worth_something() -> None:
    assert predicted(64) > 1.02 * predicted(64, queues="routed")


@pytest.mark.slow
def test_the_same_every_time() -> None:
    assert predicted(32) == predicted(32)


def test_where_calls_would_be_late_only_the_schedule_is_promised() -> None:
    planned = prediction(96, rates="planned")
    assert planned.throughput_hz == scheduled(96).action_throughput_hz


@pytest.mark.slow
def test_what_is_told_is_measured_for_longer_and_what_all_rests_on_for_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends_s: list[float] = []

    class Watched(ScriptedFleet):
        def run(self, until_s: float) -> None:
            ends_s.append(until_s)
            super().run(until_s)

    monkeypatch.setattr(prediction_module, "ScriptedFleet", Watched)
    schedule, problem = scheduled(8), problem_from(factory(8))
    played(placed(8), problem)
    assert GLANCE_S[0] <= ends_s[-1] - SETTLE_S <= GLANCE_S[1]
    predicted_of(placed(8), schedule, problem)
    assert TOLD_S[0] <= ends_s[-1] - SETTLE_S <= TOLD_S[1]
    as_played = replace(schedule, options={**schedule.options, "any_arrivals": False})
    predicted_of(placed(8), as_played, problem)
    assert RELIED_ON_S[0] <= ends_s[-1] - SETTLE_S <= RELIED_ON_S[1]


@pytest.mark.slow
def test_with_permits_calls_are_in_time_where_servers_are_full() -> None:
    found = prediction(96)
    assert found.holds and set(found.meet) == {"system1", "system2", "safety", "monitor"}
    assert found.throughput_hz > 2 * scheduled(96).action_throughput_hz


@cache
def of_16_servers() -> tuple[Choice, Problem]:
    """128 robots, with two servers for System 2."""
    described = factory(128)
    cluster = replace(described.server_cluster, num_servers=16)
    problem = problem_from(replace(described, server_cluster=cluster))
    return choose(problem, LIBRARY, Options(), described.policies), problem


def servers_by_queue(placement: Placement) -> Counter[str]:
    return Counter(replica.queue for replica in placement.replicas.values())


@pytest.mark.slow
def test_a_slice_has_its_share_of_robots_and_servers() -> None:
    placement = of_16_servers()[0].placement
    part = slice_of(placement, 64)
    assert part is not None and part.routes is not None
    assert len(part.routes) == 64, "64 robots come out even; any other number loses a part of a server"
    assert servers_by_queue(part) == {queue: n // 2 for queue, n in servers_by_queue(placement).items()}
    assert {server for routing in part.routes.values() for server in routing.values()} <= set(part.replicas)


@pytest.mark.slow
def test_a_slice_acts_as_often_as_the_whole_and_not_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    choice, problem = of_16_servers()
    monkeypatch.setattr(prediction_module, "MAX_ROBOTS", 64)
    part = predicted_of(choice.placement, choice.schedule, problem)
    assert part.holds
    assert 0.96 * choice.prediction.throughput_hz < part.throughput_hz <= choice.prediction.throughput_hz


def test_a_fleet_that_is_small_enough_is_whole() -> None:
    placement = placed(64)
    assert slice_of(placement, MAX_ROBOTS) is placement


@pytest.mark.slow
def test_what_cannot_be_divided_is_not_played_through(monkeypatch: pytest.MonkeyPatch) -> None:
    assert slice_of(placed(64), 32) is None, "one server for System 2"
    monkeypatch.setattr(prediction_module, "MAX_ROBOTS", 32)
    assert predicted(64) > scheduled(64).action_throughput_hz, "the next larger part is the whole"
    monkeypatch.setattr(prediction_module, "LARGER_PARTS", (1,))
    found = prediction(64)
    assert found.throughput_hz == scheduled(64).action_throughput_hz
    assert not found.meet and "under one server" in found.missing, "and that is said"


@pytest.mark.slow
def test_in_a_part_of_a_fleet_no_verdict_is_late_because_servers_are_whole() -> None:
    """Three servers of the guard for 300 robots: a part of 200 has two, one of 250 has two as well."""
    problem = problem_from(factory(300)).with_servers(40)
    placement = choose(problem, LIBRARY, Options(), factory(300).policies).placement
    part = slice_of(placement, MAX_ROBOTS)
    assert part is not None and part.routes is not None
    thin = prediction_module._thinned(part, placement)
    assert thin.routes is not None and thin.replicas == part.replicas
    share = len(part.routes) / 300
    for component in ("safety", "monitor"):
        calls = sum(component in routes for routes in thin.routes.values())
        name = next(routes[component] for routes in part.routes.values())
        queue = part.replicas[name].queue
        servers, all_servers = (
            sum(one.queue == queue for one in each.replicas.values()) for each in (part, placement)
        )
        expected = min(1.0, servers / all_servers / share) * len(part.routes)
        assert abs(calls - expected) <= 1 or queue in {
            part.replicas[routes["system2"]].queue for routes in part.routes.values()
        }
    assert all("system1" in routes and "system2" in routes for routes in thin.routes.values())
    assert prediction_module._thinned(placement, placement) is placement
