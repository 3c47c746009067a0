"""How a schedule is carried out: shared queues, sizes of batches, calls at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rosa_contract.config import Factory, load_factory
from rosa_contract.policies import ADAPTIVE, PLANNED, PUBLISHED, ROUTED, Policies
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.running.handover import hand_over, placement_of
from rosa_server.scheduler.schedule import Schedule
from rosa_server.scheduler.search.solve import solve
from rosa_server.serving.core.placement import Placement, Replica
from tests.unit.server.scheduler.factories import LIBRARY

P4 = Path(__file__).resolve().parents[5] / "configs" / "paper" / "p4.yaml"


def factory(robots: int, **policies: Any) -> Factory:
    loaded = load_factory(P4)
    fleet = tuple(replace(entry, num_robots=robots) for entry in loaded.robot_fleet)
    return replace(loaded, robot_fleet=fleet, policies=Policies(**policies))


@cache
def scheduled(robots: int) -> Schedule:
    return solve(problem_from(factory(robots)), LIBRARY)


def placed(robots: int, **policies: Any) -> Placement:
    return hand_over(factory(robots, **policies), scheduled(robots), "plan", LIBRARY)[0]


def of(placement: Placement, component: str) -> Replica:
    assert placement.routes is not None
    return placement.replicas[placement.routes["assemble_kit/0"][component]]


@pytest.mark.parametrize(("robots", "size"), [(8, 1), (16, 1), (32, 2), (64, 5)])
def test_batches_grow_with_the_load(robots: int, size: int) -> None:
    assert of(placed(robots), "system1").batch == size


@pytest.mark.parametrize("robots", [8, 32, 64])
def test_system_2_runs_few_calls_at_a_time_but_carries_the_load(robots: int) -> None:
    at_once = of(placed(robots), "system2").at_once
    assert at_once is not None and 4 <= at_once <= robots / 4 + 2


def test_what_the_file_says_counts() -> None:
    assert of(placed(32, at_once=3), "system2").at_once == 3
    assert of(placed(32, continuous=False), "system2").at_once is None
    assert of(placed(64, batches=PLANNED), "system1").batch == scheduled(64).server("gpu0").batch


def test_servers_that_are_alike_share_a_queue_unless_routed() -> None:
    shared, routed = placed(32), placed(32, queues=ROUTED)
    assert len({replica.queue for replica in shared.replicas.values()}) == 4, "one for each component"
    assert {replica.queue for replica in routed.replicas.values()} == set(routed.replicas)


def test_routes_and_rates_are_those_of_the_schedule() -> None:
    before, after = placement_of(scheduled(32)), placed(32, batches=ADAPTIVE)
    assert (after.routes, after.rates_hz, after.standbys) == (before.routes, before.rates_hz, before.standbys)


def test_as_published_everything_is_as_planned() -> None:
    plain = placement_of(scheduled(32))
    carried = hand_over(replace(factory(32), policies=PUBLISHED), scheduled(32), "plan", LIBRARY)[0]
    assert carried == plain
