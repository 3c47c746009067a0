"""`engine: auto`: the schedule is made with the measured engine that serves the factory best under its SLOs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_contract.config.factory import Factory, parse_factory
from rosa_contract.errors import ConfigError
from rosa_server.cluster.local import worker_specs
from rosa_server.plan.placement import unplanned
from rosa_server.scheduler.problem import Problem, problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import hand_over
from rosa_server.scheduler.search.engines import candidates, with_best_engines, with_fewest_servers
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.engines import TOKENS
from tests.unit.server.scheduler.factories import CONFIGS

LIBRARY = ProfileLibrary(profiles=(TOKENS,))


def factory(slo_ms: float, robots: int = 6, engine: str = "auto", servers: int = 2) -> Factory:
    return parse_factory(
        f"""
server_cluster: {{num_servers: {servers}, gpu_type: cpu}}
robot_fleet: [{{task: pick, num_robots: {robots}}}]
pick:
  pipeline: {{action_period_ms: 400}}
  min_action_rate_hz: 1
  components: {{system1: {{model: tokens, slo_ms: {slo_ms}, fallback: stop_and_resend}}}}
models: {{tokens: {{backend: token_policy, options: {{engine: {engine}, slots: 5}}}}}}
"""
    )


def best(slo_ms: float, robots: int = 6) -> Problem:
    return with_best_engines(problem_from(factory(slo_ms, robots)), LIBRARY, Options())


def engine_of(problem: Problem) -> str:
    return problem.classes[0].needs[0].engine


@pytest.mark.parametrize(
    ("slo_ms", "robots", "engine"),
    [
        (500, 12, "pipelined"),  # throughput counts
        (500, 1, "plain"),  # one robot waits for each answer: sooner is better
        (140, 6, "plain"),  # the pipe is too long for this SLO
    ],
)
def test_the_slo_and_the_load_decide(slo_ms: float, robots: int, engine: str) -> None:
    assert engine_of(best(slo_ms, robots)) == engine


@pytest.mark.slow
def test_the_choice_is_at_least_as_good_as_every_engine_by_itself() -> None:
    for slo_ms in (140, 220, 500):
        for robots in (1, 4, 8, 16):
            chosen = solve(best(slo_ms, robots), LIBRARY, Options())
            for engine in ("plain", "pipelined"):
                other = solve(problem_from(factory(slo_ms, robots, engine)), LIBRARY, Options())
                assert chosen.feasible or not other.feasible
                assert chosen.objective >= 0.999 * other.objective


def test_an_impossible_slo_is_refused_in_the_words_of_the_default_engine() -> None:
    problem = best(20)
    assert engine_of(problem) == "plain"
    assert not solve(problem, LIBRARY, Options()).feasible


def test_fewest_servers_are_those_of_the_engine_that_needs_fewest() -> None:
    problem = problem_from(factory(500, robots=30))
    assert engine_of(with_fewest_servers(problem, LIBRARY, Options())) == "pipelined"


def test_what_the_factory_file_names_stays() -> None:
    named = problem_from(factory(500, robots=12, engine="plain"))
    assert candidates(named, LIBRARY) == [named]


def test_a_profile_without_engines_is_planned_with_the_default() -> None:
    bare = replace(TOKENS, configurations=tuple(replace(one, engine="") for one in TOKENS.configurations))
    found = candidates(problem_from(factory(500)), ProfileLibrary(profiles=(bare,)))
    assert [engine_of(problem) for problem in found] == ["plain"]


def test_workers_run_the_engine_of_the_schedule() -> None:
    asked = factory(500, robots=12)
    schedule = solve(with_best_engines(problem_from(asked), LIBRARY, Options()), LIBRARY, Options(standby=0))
    placement, _ = hand_over(asked, schedule, "plan.json", LIBRARY)
    specs = worker_specs(asked, placement, "ipc:///tmp/none")
    assert {spec.options["engine"] for spec in specs} == {"pipelined"}
    assert {spec.options["slots"] for spec in specs} == {5}


def test_a_standby_runs_the_engine_of_those_it_covers() -> None:
    asked = factory(500, robots=8)
    problem = with_best_engines(problem_from(asked), LIBRARY, Options(standby=1))
    schedule = solve(problem, LIBRARY, Options(standby=1))
    placement, _ = hand_over(asked, schedule, "plan.json", LIBRARY)
    standbys = [replica for replica in placement.replicas.values() if replica.standby]
    assert [replica.engine for replica in standbys] == [engine_of(problem)]


def test_without_a_schedule_the_backend_takes_its_default() -> None:
    asked = factory(500)
    specs = worker_specs(asked, unplanned(asked), "ipc:///tmp/none")
    assert [dict(spec.options) for spec in specs] == [{"slots": 5}]


def test_a_schedule_of_another_engine_than_the_factory_names_is_refused() -> None:
    schedule = solve(problem_from(factory(500, robots=12, engine="pipelined")), LIBRARY, Options())
    with pytest.raises(ConfigError, match=r"servers\[0\]\.engine: planned with pipelined, .* is plain"):
        hand_over(factory(500, robots=12, engine="plain"), schedule, "plan.json", LIBRARY)


@pytest.mark.parametrize("engine", ["auto", "plain", "continuous", "pipelined"])
def test_the_shipped_factory_with_tokens_is_planned_from_the_shipped_profile(engine: str) -> None:
    text = (CONFIGS / "pick_place_tokens.yaml").read_text()
    assert text.count("engine: pipelined") == 1
    asked = parse_factory(text.replace("engine: pipelined", f"engine: {engine}"))
    problem = with_best_engines(problem_from(asked), ProfileLibrary(), Options())
    schedule = solve(problem, ProfileLibrary(), Options())
    assert schedule.feasible, schedule.reasons
    assert engine in ("auto", engine_of(problem))
