"""A profile may hold several engines of one backend; a schedule is made with the one that the factory file names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_contract.config.factory import parse_factory
from rosa_contract.errors import ConfigError
from rosa_server.scheduler.problem import Need, Problem, TaskClass, problem_from
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.profile import (
    CONTINUOUS,
    STATIC,
    Profile,
    load_profile,
    save_profile,
)
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.engines import TOKENS, configuration


def problem(engine: str, slo_ms: float = 500.0) -> Problem:
    need = Need("system1", "tokens", slo_ms, calls_per_action=1.0, engine=engine)
    return Problem(1, "cpu", (TaskClass("pick", 6, 0.4, (need,)),))


def library(*profiles: Profile) -> ProfileLibrary:
    return ProfileLibrary(profiles=profiles or (TOKENS,))


@pytest.mark.parametrize(
    ("engine", "label"), [("", "b1 plain"), ("plain", "b1 plain"), ("pipelined", "cont pipelined")]
)
def test_only_what_was_measured_with_the_named_engine_is_planned_with(engine: str, label: str) -> None:
    catalog = Catalog(problem(engine), library(), Options())
    assert [one.label for one in catalog.configurations("tokens", "system1")] == [label]


def test_the_schedule_says_the_engine_and_its_rates_are_those_of_its_profile() -> None:
    plain = solve(problem("plain"), library(), Options())
    pipelined = solve(problem("pipelined"), library(), Options())
    assert [server.engine for server in pipelined.servers] == ["pipelined"]
    assert pipelined.rates_hz["pick"]["system1"] > 1.05 * plain.rates_hz["pick"]["system1"]


def test_an_slo_below_the_pipeline_is_kept_by_the_plain_engine_only() -> None:
    few = {engine: replace(problem(engine, slo_ms=140.0)) for engine in ("plain", "pipelined")}
    assert Catalog(few["plain"], library(), Options()).capacity_hz("tokens", "system1", 140.0) > 0
    assert Catalog(few["pipelined"], library(), Options()).capacity_hz("tokens", "system1", 140.0) == 0


def test_an_engine_that_was_not_measured_is_refused_with_those_that_were() -> None:
    with pytest.raises(ConfigError, match=r"options\.engine: is continuous.*pipelined, plain"):
        Catalog(problem("continuous"), library(), Options())


def test_a_profile_without_engines_serves_any() -> None:
    bare = replace(TOKENS, configurations=tuple(replace(c, engine="") for c in TOKENS.configurations))
    catalog = Catalog(problem("whatever"), library(bare), Options())
    assert len(catalog.configurations("tokens", "system1")) == 2


def test_the_factory_file_says_the_engine() -> None:
    parsed = parse_factory(
        """
server_cluster: {num_servers: 1}
robot_fleet: [{task: pick, num_robots: 1}]
pick:
  pipeline: {action_period_ms: 400}
  components: {system1: {model: tokens, slo_ms: 500}}
models: {tokens: {backend: token_policy, options: {engine: pipelined}}}
"""
    )
    assert problem_from(parsed).classes[0].needs[0].engine == "pipelined"


def test_a_profile_with_engines_comes_back_from_its_file(tmp_path) -> None:
    save_profile(TOKENS, tmp_path / "tokens.yaml")
    assert [one.engine for one in load_profile(tmp_path / "tokens.yaml").configurations] == [
        "plain",
        "pipelined",
    ]


def test_a_default_engine_may_be_called_isolated() -> None:
    shared = replace(
        TOKENS,
        configurations=(
            configuration("isolated", STATIC, 1, 10.0, 90.0),
            configuration("kv_sharing", CONTINUOUS, 32, 40.0, 150.0),
        ),
    )
    catalog = Catalog(problem(""), library(shared), Options())
    assert [one.label for one in catalog.configurations("tokens", "system1")] == ["b1 isolated"]
