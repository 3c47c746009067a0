"""Configuration is YAML 1.2: what looks like text is text, whatever older parsers made of it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_contract.config.factory import parse_factory
from rosa_contract.config.strict import parse_yaml
from rosa_contract.config.yaml_loader import Loader, QuickLoader, is_plain
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


@pytest.mark.parametrize("text", ["!!map key: 1", "{!!seq key: 1}"])
def test_a_key_that_its_tag_makes_a_list_or_a_mapping_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text)
    assert [problem.cause for problem in caught.value.problems] == ["syntax"]


@pytest.mark.parametrize("text", ["{1: a, 0x1: b}", "{a: 1, 'a': 2}", "{true: 1, True: 2}", "{1: a, 1.0: b}"])
def test_a_key_that_is_written_in_two_ways_is_still_a_duplicate(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text)
    assert [problem.cause for problem in caught.value.problems] == ["duplicate_key"]


def test_a_key_that_is_merged_and_said_again_is_no_duplicate_wherever_its_mapping_is_merged_too() -> None:
    text = "deep: {one: &one {<<: &base {x: 1, y: 1}, x: 2}}\nother: {<<: *one, y: 3}\n"
    assert parse_yaml(text) == {"deep": {"one": {"x": 2, "y": 1}}, "other": {"x": 2, "y": 3}}
    with pytest.raises(ConfigError) as caught:
        parse_yaml("deep: {one: &one {<<: {x: 1}, x: 2, x: 3}}\nother: {<<: *one}\n")
    assert [problem.cause for problem in caught.value.problems] == ["duplicate_key"]
    with pytest.raises(ConfigError, match="duplicate key '<<'"):
        parse_yaml("one: {<<: {x: 1}, <<: {y: 2}, z: 3}\n")


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


# -- what libyaml reads is what PyYAML's own parser reads --------------------------------------------------------------

SHIPPED = sorted((Path(__file__).parents[4] / "configs").rglob("*.yaml"))
ODD = [
    b"%d",
    b"- ",
    b"? ",
    b": ",
    b":",
    b"#",
    b" #",
    b",",
    b"[",
    b"]",
    b"{",
    b"}",
    b"'",
    b'"',
    b"&a",
    b"*a",
    b"!!str ",
    b"|",
]
ODD += [
    b">",
    b"\n",
    b"\n  ",
    b"\t",
    b"\r\n",
    b"\\x41",
    b"---\n",
    b"...\n",
    b"%YAML 1.1\n",
    b"<<: ",
    b"\xc2\xb5",
    b"@",
    b"`",
    b"~",
]


def mistaken(raw: bytes, chance: random.Random) -> bytes:
    """The same with some bytes lost, moved, or put in."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(raw))
        kind = chance.randrange(3)
        if kind == 0:
            raw = raw[:at] + raw[at + chance.randint(1, 3) :]
        elif kind == 1:
            raw = raw[:at] + chance.choice(ODD) + raw[at:]
        else:
            end, to = at + chance.randint(1, 40), chance.randrange(len(raw))
            raw = raw[:to] + raw[at:end] + raw[to:]
    return raw


def documents() -> Iterator[bytes]:
    chance = random.Random(7)
    for path in SHIPPED:
        raw = path.read_bytes()
        yield raw
        for _ in range(12 if len(raw) < 4_000 else 0):
            yield mistaken(raw, chance)


def test_shipped_files_are_read_quickly() -> None:
    assert len(SHIPPED) > 30 and all(is_plain(path.read_bytes()) for path in SHIPPED)


@pytest.mark.parametrize(
    "text",
    [
        'a: "is it done?"',
        'a: {b: "is it done, or not?", c: [1]}',
        '# say: "is it done?"\na: 1',
        "a: 'say: \"is it done?\"'",
    ],
)
def test_a_question_in_quotes_is_read_quickly_and_alike(text: str) -> None:
    assert is_plain(text)
    assert yaml.load(text, QuickLoader) == yaml.load(text, Loader)


def test_whatever_is_read_quickly_is_read_alike() -> None:
    alike = refused = 0
    for raw in documents():
        if not is_plain(raw):
            refused += 1
            continue
        try:
            quick = yaml.load(raw, QuickLoader)
        except (yaml.YAMLError, ValueError, TypeError):
            continue  # the other one says what is wrong, or reads it
        assert repr(yaml.load(raw, Loader)) == repr(quick), raw
        alike += 1
    assert alike > 100 and refused > 20


@pytest.mark.parametrize(
    "text",
    [
        "[" * 6000,
        "- " * 6000,
        "[a? b]",
        """[': "w' , b?, "c"]""",
        '["a: ", b?, "c"]',
        "%YAML 1.1\n---\na: 1",
        "a: &b 1",
        "a: |\n  b",
        "a:\t1",
        "a: µ",
    ],
)
def test_what_may_be_read_differently_or_is_nested_without_end_is_not_read_quickly(text: str) -> None:
    assert not is_plain(text)
