"""Factories with fewer GPUs than models, and models that hardly use one of their own."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
import yaml

from rosa_contract.config.factory import factory_from, load_factory, parse_factory
from rosa_contract.config.policies import PUBLISHED, Policies
from rosa_contract.errors import ConfigError
from rosa_server.plan.admission import NoAdmission
from rosa_server.scheduler.choosing.choice import choose
from rosa_server.scheduler.placement.schedule import Schedule, schedule_from
from rosa_server.scheduler.problem import Problem, problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import hand_over
from rosa_server.scheduler.search.min_servers import servers_needed
from rosa_server.scheduler.search.shared_gpus import gpus_needed, solve_shared
from tests.unit.server.scheduler.factories import CONFIGS, LIBRARY, factory

LAB = factory("lab")


def check(schedule: Schedule, problem: Problem) -> None:
    """Every SLO is expected to hold, and every robot has a server for each component."""
    assert schedule.feasible
    assert schedule.gpus <= problem.servers
    gpus: dict[str, list[str]] = defaultdict(list)
    for server in schedule.servers:
        gpus[server.gpu].append(server.model)
        for stream in server.streams:
            assert server.p99_ms[stream.component] <= problem.needs[stream].slo_ms
    gpus.pop("", None)
    assert all(len(models) > 1 for models in gpus.values())
    for routes in schedule.routing.values():
        assert set(routes) == {need.component for cls in problem.classes for need in cls.needs}


@pytest.mark.slow
def test_four_models_and_four_arms_work_with_one_gpu() -> None:
    schedule = choose(LAB, LIBRARY, Options(), Policies()).schedule
    check(schedule, LAB)
    assert (schedule.gpus, len(schedule.servers), schedule.shares_gpus) == (1, 4, True)


def test_a_gpu_for_each_model_is_taken_where_it_fits() -> None:
    assert not choose(LAB.with_servers(4), LIBRARY, Options(), Policies()).schedule.shares_gpus


@pytest.mark.slow
def test_a_model_that_keeps_a_gpu_for_long_shares_it_where_robots_are_told_when_to_call() -> None:
    """System 2 runs for 233 ms, and System 1 has to answer within 200."""
    problem = factory("paper/p4", robots=4, servers=1)
    assert solve_shared(problem, LIBRARY, Options()) is None, "not for any arrivals"
    choice = choose(problem, LIBRARY, Options(), Policies())
    assert choice.schedule.feasible and choice.schedule.gpus == 1
    assert not choice.schedule.holds_for_any_arrivals and choice.prediction.holds
    waits_ms = {one.model: one.blocked_ms for one in choice.placement.replicas.values() if one.permits}
    assert len(waits_ms) == 2 and set(waits_ms.values()) == {0.0}
    as_asked = choose(problem.with_servers(2), LIBRARY, Options(), Policies()).schedule
    assert as_asked.holds_for_any_arrivals
    check(as_asked, problem.with_servers(2))


def test_a_factory_that_its_gpu_does_not_carry_is_refused() -> None:
    problem = factory("paper/p4", robots=32, servers=1)
    refused = choose(problem, LIBRARY, Options(), Policies()).schedule
    assert not refused.feasible and refused.reasons[0].cause == "too_few_servers"


def test_two_models_that_answer_the_same_have_names_of_their_own() -> None:
    """Two tasks whose System 1 is another model, on one GPU."""
    document = yaml.safe_load((CONFIGS / "lab.yaml").read_text())
    system1 = document["tidy_bench"]["components"]["system1"]
    document["wipe_bench"] = {
        "pipeline": {"action_period_ms": 400},
        "components": {"system1": {**system1, "model": "lab/wipe"}},
    }
    document["robot_fleet"] = [
        {"task": "tidy_bench", "num_robots": 1},
        {"task": "wipe_bench", "num_robots": 1},
    ]
    factory_of_both = factory_from(document, "lab")
    known = [LIBRARY.get(need.model, LAB.gpu_type) for need in LAB.needs.values()]
    other = replace(LIBRARY.get(system1["model"], LAB.gpu_type), model="lab/wipe")
    library = ProfileLibrary(profiles=[*known, other])
    schedule = solve_shared(problem_from(factory_of_both), library, Options())
    assert schedule is not None
    names = [server.id for server in schedule.servers]
    assert len(set(names)) == len(names) and "gpu0-system1-2" in names
    hand_over(factory_of_both, schedule, "plan.json", library)


def test_as_published_no_gpu_is_shared() -> None:
    assert not choose(LAB, LIBRARY, Options.paper(), PUBLISHED).schedule.feasible


def test_fewer_gpus_are_enough_and_a_schedule_is_found_for_them() -> None:
    problem = factory("paper/p4", robots=8)
    apart = servers_needed(problem, LIBRARY, Options(), 0.5)
    gpus = gpus_needed(problem, LIBRARY, Options(), 0.5)
    assert apart is not None and apart.servers == 4
    assert gpus == 2
    assert solve_shared(problem.with_servers(1), LIBRARY, Options()) is None


def test_no_number_of_gpus_is_named_for_a_standby_that_would_stand_in_for_nobody() -> None:
    """On one GPU and a standby `rosa plan` refuses it: the models take turns there."""
    assert gpus_needed(LAB, LIBRARY, Options(), 0.0) == 1
    assert gpus_needed(LAB, LIBRARY, Options(standby=1), 0.0) is None


@pytest.mark.slow
def test_a_standby_covers_what_has_a_gpu_to_itself() -> None:
    problem = factory("paper/p4", robots=4, servers=3)
    schedule = solve_shared(problem, LIBRARY, Options(standby=1), largest=1)
    assert schedule is not None
    (standby,) = (server for server in schedule.servers if server.standby)
    assert set(standby.covers) == {s.id for s in schedule.servers if not s.standby and not s.gpu}


@pytest.fixture(scope="module")
def lab() -> Schedule:
    found = solve_shared(LAB, LIBRARY, Options(), largest=2)
    assert found is not None
    return found


@pytest.mark.slow
def test_it_survives_its_file(lab: Schedule) -> None:
    assert schedule_from(lab.to_dict()) == lab


@pytest.mark.slow
def test_a_gpu_is_no_server_of_its_own(lab: Schedule) -> None:
    document = lab.to_dict()
    document["servers"][0]["gpu"] = document["servers"][1]["id"]
    with pytest.raises(ConfigError) as caught:
        schedule_from(document)
    assert caught.value.problems[0].path == "servers[0].gpu"


def test_the_server_gets_replicas_that_take_turns_and_admits_nobody_else(lab: Schedule) -> None:
    placement, admission = hand_over(load_factory(CONFIGS / "lab.yaml"), lab, "plan.json", LIBRARY)
    assert isinstance(admission, NoAdmission)
    replicas = placement.replicas.values()
    assert {(one.server, one.takes_turns, one.pool) for one in replicas} == {("gpu0", True, "")}
    longest_ms = {one.id: 1000 * one.times.service_s(one.batch or 1) for one in replicas}
    for one in replicas:
        assert one.blocked_ms == max(ms for name, ms in longest_ms.items() if name != one.id)


def test_more_gpus_than_there_are_is_a_conflict() -> None:
    schedule = solve_shared(factory("paper/p4", robots=4, servers=2), LIBRARY, Options(), largest=2)
    assert schedule is not None
    text = (CONFIGS / "paper" / "p4.yaml").read_text().replace("num_servers: 8", "num_servers: 1")
    with pytest.raises(ConfigError) as caught:
        hand_over(parse_factory(text), schedule, "plan.json", LIBRARY)
    assert caught.value.problems[0].path == "servers"
