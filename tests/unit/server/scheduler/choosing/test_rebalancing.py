"""Servers move to the model that robots wait for, and every promise of the schedule is kept."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from rosa_contract.config.factory import Factory
from rosa_server.scheduler.choosing.candidates import Choice
from rosa_server.scheduler.choosing.choice import choose
from rosa_server.scheduler.choosing.rebalancing import divided, rebalanced
from rosa_server.scheduler.placement.pool import Pool
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.problem import Problem, problem_from
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import hand_over
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import LIBRARY, pool, task
from tests.unit.server.scheduler.running.test_policies import factory


def larger(robots: int, servers: int) -> Factory:
    described = factory(robots)
    return replace(described, server_cluster=replace(described.server_cluster, num_servers=servers))


@cache
def solved(robots: int, servers: int) -> Schedule:
    return solve(problem_from(larger(robots, servers)), LIBRARY)


@cache
def chosen(robots: int, servers: int) -> Choice:
    described = larger(robots, servers)
    return choose(problem_from(described), LIBRARY, Options(), described.policies)


def servers_of(schedule: Schedule) -> dict[str, int]:
    return schedule.servers_by_component()


@pytest.mark.slow
def test_rounds_that_wait_for_system_2_get_it_more_servers() -> None:
    before, after = solved(128, 16), chosen(128, 16)
    assert servers_of(before)["system2"] == 1 and servers_of(after.schedule)["system2"] == 2
    assert servers_of(after.schedule)["system1"] == servers_of(before)["system1"] - 1
    assert after.prediction.holds
    assert after.prediction.throughput_hz > 1.1 * 128 * 2.37, "what was predicted with one server"


def test_every_promise_of_the_schedule_is_kept() -> None:
    described, choice = larger(128, 16), chosen(128, 16)
    assert len(choice.schedule.servers) == 16
    assert len(choice.schedule.routing) == 128
    hand_over(
        described, choice.schedule, "moved", LIBRARY
    )  # raises where a route, a rate or an SLO does not hold


@pytest.mark.slow
def test_on_the_papers_eight_servers_nothing_moves() -> None:
    assert chosen(64, 8).schedule == solved(64, 8)


def test_what_is_not_worth_it_is_not_done() -> None:
    schedule, problem = solved(128, 16), problem_from(larger(128, 16))
    same = rebalanced(schedule, 1.0, lambda _: 1.009, problem, LIBRARY, Options())
    assert same is schedule


def test_it_goes_on_while_moves_are_worth_it() -> None:
    """Somebody who only counts System 2's servers gets as many as the SLO of System 1 allows to give."""
    schedule, problem = solved(128, 16), problem_from(larger(128, 16))

    def worth(one: Schedule) -> float:
        return float(servers_of(one)["system2"])

    moved = rebalanced(schedule, worth(schedule), worth, problem, LIBRARY, Options())
    assert servers_of(moved)["system2"] >= 3
    assert len(moved.servers) == 16
    hand_over(larger(128, 16), moved, "moved", LIBRARY)


def test_a_minimum_rate_is_not_given_away() -> None:
    schedule, problem = solved(128, 16), problem_from(larger(128, 16))
    (cls,) = problem.classes
    rate_hz = schedule.rates_hz[cls.name]["system1"]
    strict = problem.with_class(replace(cls, min_rate_hz=rate_hz))
    moved = rebalanced(
        schedule, 1.0, lambda one: float(servers_of(one)["system2"]), strict, LIBRARY, Options()
    )
    assert moved.rates_hz[cls.name]["system1"] >= rate_hz * (1 - 1e-9)
    assert servers_of(moved)["system2"] == 1


def test_it_ends_with_the_time_budget() -> None:
    schedule, problem = solved(128, 16), problem_from(larger(128, 16))
    times = iter([0.0, 21.0])
    asked: list[Schedule] = []

    def worth(one: Schedule) -> float:
        asked.append(one)
        return 2.0

    assert rebalanced(schedule, 1.0, worth, problem, LIBRARY, Options(), lambda: next(times)) is schedule
    assert not asked


@pytest.mark.slow
def test_standbys_are_kept() -> None:
    described = larger(96, 17)
    problem, options = problem_from(described), Options(standby=1)
    choice = choose(problem, LIBRARY, options, described.policies)
    assert [server.id for server in choice.schedule.servers if server.standby] == ["standby0"]
    assert servers_of(choice.schedule) != servers_of(solve(problem, LIBRARY, options)), "servers have moved"
    assert choice.schedule.idle_servers == 0


@pytest.mark.parametrize(("system1", "system2"), [(0, 2), (2, 0)])
def test_no_server_for_a_model_is_no_division(system1: int, system2: int) -> None:
    problem: Problem = pool(4, task("t", 4, "2"))
    kinds = Pool(Catalog(problem, LIBRARY, Options()), problem, 2)
    counts = dict(zip(kinds.kinds, (system1, system2), strict=True))
    assert divided(kinds, counts, {"t": 1.0}) is None


def test_streams_keep_their_number() -> None:
    problem: Problem = pool(4, task("t", 5, "2"), task("u", 3))
    kinds = Pool(Catalog(problem, LIBRARY, Options()), problem, 4)
    found = divided(kinds, dict(zip(kinds.kinds, (3, 1), strict=True)), {"t": 1.0, "u": 1.0})
    assert found is not None
    streams: dict[tuple[str, str], int] = {}
    for server in found.placed:
        for load in server.loads:
            key = (load.task, load.component)
            streams[key] = streams.get(key, 0) + load.streams
    assert streams == {("t", "system1"): 5, ("u", "system1"): 3, ("t", "system2"): 5}
    assert all(rate >= 1.0 for rate in found.rates_hz.values())
