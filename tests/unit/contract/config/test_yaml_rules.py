"""Configuration is YAML 1.2: what looks like text is text, whatever older parsers made of it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rosa_contract.config.factory import parse_factory
from rosa_contract.config.strict import parse_yaml
from rosa_contract.errors import ConfigError

FACTORY = """
server_cluster: {num_servers: 2}
robot_fleet: [{task: pick, num_robots: 1}]
pick:
  pipeline: {action_period_ms: 400}
  components:
    system1: {model: policy, slo_ms: SLO}
policies: {continuous: CONTINUOUS}
"""


def value(text: str) -> Any:
    return parse_yaml(f"key: {text}")["key"]


@pytest.mark.parametrize(
    "text",
    [
        "6:40",
        "6:40.5",
        "yes",
        "no",
        "on",
        "off",
        "Yes",
        "NO",
        "y",
        "n",
        "1_000",
        "0b11",
        "2026-11-23",
        "=",
        "0o8",
    ],
)
def test_what_only_yaml_1_1_reads_as_something_else_is_text(text: str) -> None:
    assert value(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", True), ("False", False), ("TRUE", True), ("null", None), ("~", None), ("", None),
        ("400", 400), ("-3", -3), ("+7", 7), ("010", 10), ("0o17", 15), ("0xfF", 255),
        ("1e3", 1000.0), ("1.0e+3", 1000.0), (".5", 0.5), ("5.", 5.0), ("-1.5E-2", -0.015), (".inf", math.inf),
        ("-.Inf", -math.inf), ('"6"', "6"), ("'true'", "true"), ("!!str 5", "5"),
    ],
)  # fmt: skip
def test_numbers_booleans_and_null_are_those_of_the_core_schema(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected and type(found) is type(expected)


def test_not_a_number_is_a_number_too() -> None:
    assert math.isnan(value(".nan"))


@pytest.mark.parametrize(
    "text",
    ["!!timestamp 2026-11-23", "!!binary aGk=", "!!set {a}", "!!omap [a: 1]", "!!python/tuple [1]", "!own x",
     "!!int 6:40", "!!bool yes", "!!float text"],
)  # fmt: skip
def test_tags_beyond_the_core_schema_are_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        value(text)
    assert [problem.cause for problem in caught.value.problems] == ["syntax"]


@pytest.mark.parametrize("text", ["{1: a, 0x1: b}", "{a: 1, 'a': 2}", "{true: 1, True: 2}", "{1: a, 1.0: b}"])
def test_a_key_that_is_written_in_two_ways_is_still_a_duplicate(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text)
    assert [problem.cause for problem in caught.value.problems] == ["duplicate_key"]


def problems(slo: str = "300", continuous: str = "true") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_factory(FACTORY.replace("SLO", slo).replace("CONTINUOUS", continuous))
    return [str(problem) for problem in caught.value.problems]


def test_a_time_of_day_is_no_number_and_the_error_says_why() -> None:
    (problem,) = problems(slo="6:40")
    assert (
        problem == "pick.components.system1.slo_ms: expected a number, got '6:40' (YAML 1.2 has no base 60)"
    )


@pytest.mark.parametrize("word", ["yes", "no", "on", "off"])
def test_yes_is_no_boolean_and_the_error_says_what_is(word: str) -> None:
    (problem,) = problems(continuous=word)
    assert problem == (
        f"policies.continuous: expected true or false, got {word!r} (in YAML 1.2 {word} is text)"
    )


def test_scientific_notation_is_a_number_as_written() -> None:
    factory = parse_factory(FACTORY.replace("SLO", "3e2").replace("CONTINUOUS", "true"))
    assert factory.tasks["pick"].components["system1"].slo_ms == 300.0
