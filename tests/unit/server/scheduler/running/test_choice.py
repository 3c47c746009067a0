"""The schedule that is carried out best is chosen, not the one that is best on paper."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from rosa_contract.config.policies import PUBLISHED
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.problem import Problem, problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.choice import WORTH_IT, Choice, choose, expected
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import LIBRARY
from tests.unit.server.scheduler.running.test_policies import factory, of


def chosen(robots: int, **policies: object) -> Choice:
    described = factory(robots, **policies)
    return choose(problem_from(described), LIBRARY, Options(), described.policies)


def shares(choice: Choice) -> bool:
    return any(len(server.components) > 1 for server in choice.schedule.servers)


def test_where_servers_are_short_two_components_of_a_model_share_them() -> None:
    choice = chosen(96)
    assert shares(choice) and choice.prediction.holds
    assert choice.prediction.throughput_hz >= 157
    assert choice.schedule.options == {"share_components": True}
    both = {of(choice.placement, "system2").queue, of(choice.placement, "monitor").queue}
    assert len(both) == 1, "each of their servers runs calls of either"
    assert set(of(choice.placement, "system2").mixed_ms) == {"system2", "monitor"}


@pytest.mark.parametrize("robots", [8, 64])
def test_where_sharing_brings_nothing_each_component_has_servers(robots: int) -> None:
    assert not shares(chosen(robots))


def test_it_is_never_worse_than_either_candidate() -> None:
    problem = problem_from(factory(96))
    best = chosen(96).prediction.objective
    for options in (Options(), Options(share_components=True)):
        other = expected(solve(problem, LIBRARY, options), problem, LIBRARY, factory(96).policies)
        assert best * WORTH_IT >= other.prediction.objective


def test_as_published_it_is_the_solvers_schedule() -> None:
    problem = problem_from(factory(96))
    assert choose(problem, LIBRARY, Options(), PUBLISHED).schedule == solve(problem, LIBRARY)


def test_permits_where_they_allow_larger_batches() -> None:
    assert of(chosen(96).placement, "system1").permits and of(chosen(96).placement, "system2").permits
    assert not of(chosen(96).placement, "safety").permits
    assert not any(replica.permits for replica in chosen(96, rates="planned").placement.replicas.values())


def test_what_cannot_be_served_is_refused_with_its_reasons() -> None:
    problem = problem_from(factory(96)).with_servers(3)
    choice = choose(problem, LIBRARY, Options(), factory(96).policies)
    assert not choice.schedule.feasible and choice.schedule.reasons


def test_each_candidate_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    search = importlib.import_module("rosa_server.scheduler.search.solve")
    solved: list[bool] = []
    really = search._solve

    def counted(problem: Problem, library: ProfileLibrary, options: Options, clock: Any) -> Schedule:
        solved.append(options.share_components)
        return really(problem, library, options, clock)

    monkeypatch.setattr(search, "_solve", counted)
    chosen(8)
    assert solved == [False, True]
    solved.clear()
    solve(problem_from(factory(8)), LIBRARY, Options(share_components=True))
    assert solved == [True, False], "on its own it finds the schedule without sharing itself"
