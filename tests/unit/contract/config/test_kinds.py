"""A robot file in place of a factory file, or the reverse, is one error that says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rosa_contract.config.documents import FACTORY, ROBOT, kind_of, mistaken
from rosa_contract.config.factory import load_factory
from rosa_contract.config.robot import load_robot
from rosa_contract.config.strict import read_yaml
from rosa_contract.errors import ConfigError

CONFIGS = Path(__file__).resolve().parents[4] / "configs"
ROBOTS = sorted((CONFIGS / "robots").glob("*.yaml"))
FACTORIES = sorted(CONFIGS.glob("*.yaml")) + sorted((CONFIGS / "paper").glob("*.yaml"))


AS_FACTORY = (load_factory, "is a robot file; expected a factory file, such as configs/pick_place.yaml")
AS_ROBOT = (load_robot, "is a factory file; expected a robot file, such as configs/robots/panda.yaml")


@pytest.mark.parametrize(
    ("path", "kind", "load", "words"),
    [
        *(pytest.param(path, ROBOT, *AS_FACTORY, id=path.name) for path in ROBOTS),
        *(pytest.param(path, FACTORY, *AS_ROBOT, id=path.name) for path in FACTORIES),
    ],
)
def test_a_file_of_one_kind_in_place_of_the_other_is_one_error(
    path: Path, kind: str, load: Callable[[Path], object], words: str
) -> None:
    assert kind_of(read_yaml(path)) == kind
    with pytest.raises(ConfigError) as caught:
        load(path)
    [problem] = caught.value.problems
    assert problem.words == words


@pytest.mark.parametrize("document", [None, "hello", [], {}, {"version": 2}])
def test_of_anything_else_its_own_mistakes_are_told(document: object) -> None:
    assert kind_of(document) == ""
    assert mistaken(document, FACTORY) == mistaken(document, ROBOT) == ""
