"""A large fleet is planned as equal parts, and the plan is one of the whole fleet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_contract.config.policies import Policies
from rosa_server.scheduler.choosing import choice, parts
from rosa_server.scheduler.choosing.candidates import Choice
from rosa_server.scheduler.choosing.choice import choose
from rosa_server.scheduler.choosing.parts import Parts, parts_of, repeated
from rosa_server.scheduler.placement.schedule import Schedule, schedule_from
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.deployment import audit, deploy
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import LIBRARY, factory


def small(problem: Problem, monkeypatch: pytest.MonkeyPatch, options: Options | None = None) -> Choice:
    """The choice where fleets of more than 60 robots count as large."""
    monkeypatch.setattr(parts, "LARGE", 60)
    monkeypatch.setattr(parts, "MIN_PART", 20)
    monkeypatch.setattr(parts, "MAX_PART", 60)
    return choose(problem, LIBRARY, options or Options(), Policies())


def check(schedule: Schedule, problem: Problem, options: Options | None = None) -> None:
    """All robots have a place, and every server keeps every SLO with the robots that are routed to it."""
    assert schedule.feasible and schedule.robots == {cls.name: cls.robots for cls in problem.classes}
    assert len(schedule.routing) == problem.robots
    assert schedule.gpus + schedule.idle_servers == problem.servers
    assert schedule_from(schedule.to_dict()).to_dict() == schedule.to_dict()
    audit(deploy(problem, Catalog(problem, LIBRARY, options or Options()), schedule))
    for server in schedule.servers:
        for key, count in server.streams.items():
            routed = [
                slot
                for slot, routes in schedule.routing.items()
                if slot.startswith(f"{key.task}/") and routes[key.component] == server.id
            ]
            assert len(routed) == count
    assert len({server.id for server in schedule.servers}) == len(schedule.servers)


@pytest.mark.slow
def test_a_fleet_that_divides_evenly_does_as_much_as_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = factory("paper/p4", 96, 12)
    one = choose(factory("paper/p4", 32, 4), LIBRARY, Options(), Policies())
    whole = small(problem, monkeypatch)
    check(whole.schedule, problem)
    found = parts_of(problem)
    assert found is not None and problem.robots == found.count * found.part.robots
    if found.part == factory("paper/p4", 32, 4):
        assert whole.prediction.throughput_hz == pytest.approx(3 * one.prediction.throughput_hz)
    assert set(whole.placement.phases) == set(whole.schedule.routing)


@pytest.mark.slow
@pytest.mark.parametrize("robots", [97, 109])
def test_what_does_not_divide_leaves_places_empty(robots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = factory("paper/mix2", robots, 15)
    monkeypatch.setattr(parts, "MAX_LOST", 0.3)
    whole = small(problem, monkeypatch)
    check(whole.schedule, problem)
    found = parts_of(problem)
    assert found is not None and found.count * found.part.robots > robots
    rates_hz = whole.prediction.rates_hz
    assert whole.prediction.throughput_hz == pytest.approx(problem.action_throughput_hz(rates_hz))


def test_a_server_without_robots_is_not_used() -> None:
    """One robot on each: the last part has two robots less."""
    problem = replace(factory("paper/p2", 4, 16), servers=16)
    part = replace(problem.scaled_to(2), servers=8)
    schedule = solve(part, LIBRARY)
    alone = [server for server in schedule.servers if sum(server.streams.values()) == 1]
    assert alone, "else this tests nothing"
    whole = repeated(schedule, problem.scaled_to(3), Parts(2, part))
    check(whole, problem.scaled_to(3))
    assert len(whole.servers) == 2 * len(schedule.servers) - len({s.components for s in alone})


@pytest.mark.slow
def test_standbys_are_of_the_whole_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, options = factory("paper/p4", 64, 10), Options(standby=2)
    schedule = small(problem, monkeypatch, options).schedule
    check(schedule, problem, options)
    assert [server.standby for server in schedule.servers].count(True) == 2
    assert schedule.options["standby"] == 2


def test_small_fleets_and_rare_tasks_are_planned_as_a_whole() -> None:
    assert parts_of(factory("paper/p4", parts.LARGE, 500)) is None
    assert parts_of(factory("paper/p4", 10_000, 1250)) is not None
    mixed = factory("paper/mix4", 10_000, 1250)
    assert parts_of(mixed) is not None
    rare = mixed.with_class(replace(mixed.classes[0], robots=3))
    assert parts_of(rare) is None, "its models would get servers in every part"


@pytest.mark.slow
def test_where_a_part_cannot_be_served_the_whole_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = factory("paper/p4", 16, 4)
    monkeypatch.setattr(choice, "parts_of", lambda *_: Parts(4, problem.scaled_to(4).with_servers(0)))
    found = choose(problem, LIBRARY, Options(), Policies())
    check(found.schedule, problem, Options(**found.schedule.options))
