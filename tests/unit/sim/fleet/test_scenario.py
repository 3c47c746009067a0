"""Scenario files: the shipped ones load, and a mistake is one clear error with its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rosa_contract.errors import ConfigError
from rosa_sim.fleet.scenario import SHIPPED, load_scenario, scenario_from
from rosa_sim.fleet.systems import SYSTEMS

HERE = SHIPPED / "made_up.yaml"
GOOD: dict[str, Any] = {"factory": "../paper/p4.yaml", "robots": [8]}


def problems(**changes: Any) -> list[str]:
    with pytest.raises(ConfigError) as error:
        scenario_from({**GOOD, **changes}, HERE)
    return [str(problem) for problem in error.value.problems]


@pytest.mark.parametrize("name", ["p1", "p2", "p3", "p4", "mix2", "mix4"])
def test_the_papers_workloads_are_scenarios(name: str) -> None:
    loaded = load_scenario(name)
    assert set(loaded.scenario.robots) >= {8, 16, 32, 64}
    assert loaded.factory.server_cluster.num_servers == 8
    assert loaded.scenario.systems == SYSTEMS
    assert loaded.scenario.start == ("random", "together")


def test_every_shipped_scenario_loads() -> None:
    found = sorted(SHIPPED.glob("*.yaml"))
    assert len(found) >= 6
    for path in found:
        assert load_scenario(str(path)).name == path.stem


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"robots": []}, "robots", "empty"),
        ({"robots": [8, 0]}, "robots[1]", "must be >= 1"),
        ({"sedes": 3}, "sedes", "did you mean 'seeds'"),
        ({"systems": ["rosa", "baseline3"]}, "systems[1]", "must be one of"),
        ({"start": ["togther"]}, "start[0]", "did you mean 'together'"),
        ({"network": {"loss": 1.5}}, "network.loss", "must be <= 1"),
        (
            {"lost_servers": [{"component": "sytem1", "at_s": 5}]},
            "lost_servers[0].component",
            "did you mean 'system1'",
        ),
        ({"joined": [{"task": "assemble", "robots": 2, "at_s": 1}]}, "joined[0].task", "assemble_kit"),
        ({"body": {"operator_s": -1}}, "body.operator_s", "must be >= 0"),
    ],
)
def test_a_mistake_names_its_path(changes: dict[str, Any], path: str, words: str) -> None:
    found = problems(**changes)
    assert len(found) == 1
    assert found[0].startswith(f"{path}: ")
    assert words in found[0]


def test_a_mixed_fleet_needs_a_robot_for_each_task() -> None:
    assert problems(factory="../paper/mix4.yaml", robots=[3])[0].startswith("robots[0]: expected at least 4")


def test_an_unknown_name_lists_the_scenarios() -> None:
    with pytest.raises(ConfigError, match="p4"):
        load_scenario("p44")


def test_a_missing_factory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        scenario_from({**GOOD, "factory": "nowhere.yaml"}, tmp_path / "s.yaml")
