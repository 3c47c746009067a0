"""A robot file in place of a factory file, or the reverse, is one error that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_contract.config import load_factory
from rosa_contract.errors import ConfigError
from rosa_contract.kinds import FACTORY, ROBOT, kind_of, mistaken
from rosa_contract.robot import load_robot
from rosa_contract.strict import read_yaml

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
ROBOTS = sorted((CONFIGS / "robots").glob("*.yaml"))
FACTORIES = sorted(CONFIGS.glob("*.yaml")) + sorted((CONFIGS / "paper").glob("*.yaml"))


@pytest.mark.parametrize("path", ROBOTS, ids=lambda path: path.name)
def test_a_robot_file_is_no_factory_file(path: Path) -> None:
    assert kind_of(read_yaml(path)) == ROBOT
    with pytest.raises(ConfigError) as caught:
        load_factory(path)
    [problem] = caught.value.problems
    assert problem.words == "describes a robot; expected a factory file, such as configs/pick_place.yaml"


@pytest.mark.parametrize("path", FACTORIES, ids=lambda path: path.name)
def test_a_factory_file_is_no_robot_file(path: Path) -> None:
    assert kind_of(read_yaml(path)) == FACTORY
    with pytest.raises(ConfigError) as caught:
        load_robot(path)
    [problem] = caught.value.problems
    assert problem.words == "describes a factory; expected a robot file, such as configs/robots/panda.yaml"


@pytest.mark.parametrize("document", [None, "hello", [], {}, {"version": 2}])
def test_of_anything_else_its_own_mistakes_are_told(document: object) -> None:
    assert kind_of(document) == ""
    assert mistaken(document, FACTORY) == mistaken(document, ROBOT) == ""
