"""The factory file: what loads, and what a mistake looks like to the person who made it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_contract.config.factory import load_factory, parse_factory
from rosa_contract.config.robot import load_robot
from rosa_contract.errors import CONFIG_CAUSES, ConfigError, ConfigProblem
from tests.examples import examples

CONFIGS = Path(__file__).parents[4] / "configs"

GOOD = """
server_cluster: {num_servers: 2}
robot_fleet: [{task: pick, num_robots: 1}]
pick:
  pipeline: {action_period_ms: 400}
  components:
    system1: {model: a, slo_ms: 200}
    monitor: {model: b, slo_ms: 1000, freq_hz: 1}
"""


def problems(text: str) -> list[ConfigProblem]:
    with pytest.raises(ConfigError) as caught:
        parse_factory(text)
    return caught.value.problems


def test_figure_3_of_the_paper_loads_unchanged() -> None:
    factory = load_factory(CONFIGS / "factory.yaml")
    assert factory.server_cluster.num_servers == 8
    assert [(entry.task, entry.num_robots) for entry in factory.robot_fleet] == [
        ("pick_and_place_simple", 16),
        ("inspect_product", 16),
    ]
    inspect = factory.tasks["inspect_product"]
    assert inspect.pipeline.system2_to_system1_call_ratio == 1
    assert inspect.components["safety"].fallback == "stop_and_replan"
    assert inspect.components["safety"].freq_hz == 2
    assert inspect.safety_and_slo_violation.max_consecutive_safety_replan == 10
    assert factory.tasks["pick_and_place_simple"].components["system1"].slo_ms == 200


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_factory_loads(path: Path) -> None:
    assert load_factory(path).tasks


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("robots/*.yaml")), ids=lambda path: path.name)
def test_every_shipped_robot_loads(path: Path) -> None:
    assert load_robot(path).joints


@pytest.mark.parametrize(
    ("old", "new", "cause", "expected"),
    [
        (
            "slo_ms: 200",
            "slo_ms: -5",
            "out_of_range",
            "pick.components.system1.slo_ms: must be > 0, got -5",
        ),
        (
            "slo_ms: 200",
            "slo: 200",
            "unknown_key",
            "pick.components.system1.slo: unknown key (did you mean 'slo_ms'?)",
        ),
        (
            "slo_ms: 200",
            "slo_ms: .nan",
            "out_of_range",
            "pick.components.system1.slo_ms: must be finite, got nan",
        ),
        (
            "slo_ms: 200",
            "slo_ms: true",
            "wrong_type",
            "pick.components.system1.slo_ms: expected a number, got True",
        ),
        (
            "slo_ms: 200",
            "slo_ms: 2:00",
            "wrong_type",
            "pick.components.system1.slo_ms: expected a number, got '2:00' (YAML 1.2 has no base 60)",
        ),
        (
            "num_servers: 2",
            "num_servers: 0",
            "out_of_range",
            "server_cluster.num_servers: must be >= 1, got 0",
        ),
        (
            "num_robots: 1",
            "num_robots: 1.5",
            "wrong_type",
            "robot_fleet[0].num_robots: expected a whole number, got 1.5",
        ),
        (
            "task: pick,",
            "task: pik,",
            "unknown_name",
            "robot_fleet[0].task: no task 'pik' in this file (did you mean 'pick'?)",
        ),
        (
            "robot_fleet:",
            "robot_flet:",
            "missing",
            "robot_fleet: is missing (is 'robot_flet' a misspelling of it?)",
        ),
        (
            "freq_hz: 1",
            "fallback: stop",
            "unknown_name",
            "pick.components.monitor.fallback: must be one of use_last_plan, stop_and_resend",
        ),
        (
            "    monitor: {model: b, slo_ms: 1000, freq_hz: 1}",
            "    monitor: {model: b, slo_ms: 1}",
            "missing",
            "pick.components.monitor.freq_hz: is missing",
        ),
        (
            "system1:",
            "sistem1:",
            "missing",
            "needs a component system1, the action model (is 'sistem1' a misspelling of it?)",
        ),
        ("slo_ms: 200", "slo_ms: 200, fallback: use_last_plan", "conflict", "needs a component system2"),
        ("slo_ms: 200", "slo_ms: 200, freq_hz: 3", "conflict", "is set by pipeline.action_period_ms"),
        (
            "action_period_ms: 400",
            "action_period_ms: 400, execution: asynchronous, settle_ms: 50",
            "conflict",
            "pick.pipeline.settle_ms: expected 0, got 50: an arm that never holds between chunks cannot settle",
        ),
        (
            "slo_ms: 200",
            "slo_ms: 200, slo_ms: 300",
            "duplicate_key",
            "duplicate key 'slo_ms' (line 7, column 38)",
        ),
        (
            "action_period_ms: 400",
            "action_period_ms: 400, horizon: {policy: treshold, t: x}",
            "wrong_type",
            "pick.pipeline.horizon.t: expected a number, got 'x'",
        ),
        (
            "action_period_ms: 400",
            "action_period_ms: 400, horizon: {policy: static}",
            "missing",
            "pick.pipeline.horizon.steps: is missing; policy static needs it",
        ),
        (
            "action_period_ms: 400",
            "action_period_ms: 400, horizon: {policy: static, steps: 0}",
            "out_of_range",
            "pick.pipeline.horizon.steps: must be >= 1, got 0",
        ),
        (
            "action_period_ms: 400",
            "action_period_ms: 400, horizon: {policy: static, steps: 8, t: 0.4}",
            "conflict",
            "pick.pipeline.horizon.t: policy static does not use it; it uses steps",
        ),
        (
            "action_period_ms: 400",
            "action_period_ms: 400, horizon: {policy: threshold, min: 4}",
            "missing",
            "pick.pipeline.horizon.t: is missing; policy threshold needs it",
        ),
        (
            "action_period_ms: 400",
            "action_period_ms: 400, horizon: {policy: threshold, t: -1}",
            "out_of_range",
            "pick.pipeline.horizon.t: must be > -1, got -1",
        ),
        (
            "action_period_ms: 400",
            "action_period_ms: 400, horizon: {policy: threshold, t: 0.4, min: 9, max: 4}",
            "conflict",
            "pick.pipeline.horizon.min: must be <= max (4), got 9",
        ),
        (
            "action_period_ms: 400",
            "action_period_ms: 400, horizon: {policy: threshold, t: 0.4, mim: 9}",
            "unknown_key",
            "pick.pipeline.horizon.mim: unknown key (did you mean 'min'?)",
        ),
        (
            "action_period_ms: 400",
            "action_period_ms: 400, horizon: threshold",
            "wrong_type",
            "pick.pipeline.horizon: expected a mapping, got 'threshold'",
        ),
    ],
)
def test_a_mistake_is_named_by_cause_path_value_and_expectation(
    old: str, new: str, cause: str, expected: str
) -> None:
    assert old in GOOD
    found = problems(GOOD.replace(old, new, 1))
    assert any(expected in str(one) and one.cause == cause for one in found), found


def test_all_mistakes_are_reported_at_once() -> None:
    text = GOOD.replace("slo_ms: 200", "slo_ms: -5").replace("action_period_ms: 400", "action_period_ms: x")
    assert len(problems(text)) == 2


def test_an_alias_bomb_is_refused_and_does_not_hang() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    [problem] = problems("\n".join(lines))
    assert problem.cause == "too_large" and "expands to over" in problem.words


def test_a_recursive_alias_is_refused() -> None:
    [problem] = problems("a: &a [*a]")
    assert problem.cause == "too_large" and "nested deeper" in problem.words


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b"robot_fleet:\n  - {task: pick\npick: 3\n", "(line 3, column 5)"),
        (b"a: 'never closed\n", "(line 2, column 1)"),
        (b"a: \xff\n", "in the file, position 3"),
    ],
)
def test_a_mistake_of_syntax_names_the_file_and_the_line(raw: bytes, place: str, tmp_path: Path) -> None:
    path = tmp_path / "factory.yaml"
    path.write_bytes(raw)
    with pytest.raises(ConfigError) as refused:
        load_factory(path)
    [problem] = refused.value.problems
    assert problem.cause == "syntax"
    assert place in problem.words
    assert str(refused.value).startswith(str(path))
    assert " string>" not in problem.words, "PyYAML's own name for what it reads"


def test_a_missing_file_says_so() -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file") as refused:
        load_factory("/nowhere/factory.yaml")
    assert [problem.cause for problem in refused.value.problems] == ["unreadable"]


def test_a_file_that_is_a_link_to_itself_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to("link.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Too many levels of symbolic links"):
        load_factory(tmp_path / "link.yaml")


def test_tags_that_would_run_code_are_refused() -> None:
    [problem] = problems("a: !!python/object/apply:os.getcwd []")
    assert problem.cause == "syntax" and "could not determine a constructor" in problem.words


@pytest.mark.slow
@pytest.mark.prove
@settings(max_examples=examples(200, 500))
@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda raw: raw.decode("latin-1")))
def test_no_text_raises_anything_but_the_contracts_own_error(text: str) -> None:
    try:
        parse_factory(text)
    except ConfigError as error:
        assert error.problems
        assert all(problem.cause != "invalid" for problem in error.problems), "each mistake has its own cause"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.slow
@pytest.mark.prove
@settings(max_examples=examples(200, 500))
@given(st.sampled_from(["server_cluster", "robot_fleet", "pick", "models", "gateway"]), values)
def test_no_value_in_any_section_raises_anything_else(section: str, value: object) -> None:
    from rosa_contract.config.factory import factory_from
    from rosa_contract.config.strict import parse_yaml

    document = parse_yaml(GOOD)
    document[section] = value
    try:
        factory_from(document, "generated")
    except ConfigError as error:
        assert all(str(problem) and problem.cause != "invalid" for problem in error.problems)


def test_a_cause_that_is_not_documented_cannot_be_given() -> None:
    with pytest.raises(ValueError, match="cause: expected one of unreadable"):
        ConfigProblem("a.b", "oops", "words")
    assert "invalid" in CONFIG_CAUSES


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 400, "0x1" + "0" * 9000])
def test_a_number_of_hundreds_of_digits_is_named_like_any_other(number: str) -> None:
    [problem] = problems(GOOD.replace("num_servers: 2", f"num_servers: {number}"))
    assert (problem.path, problem.cause) == ("server_cluster.num_servers", "out_of_range")
    assert len(str(problem)) < 200


@pytest.mark.parametrize(("sign", "shown"), [("", "inf"), ("-", "-inf")])
def test_a_whole_number_that_no_float_holds_keeps_its_sign(sign: str, shown: str) -> None:
    [problem] = problems(GOOD.replace("slo_ms: 200", f"slo_ms: {sign}1{'0' * 400}"))
    assert problem.words == f"must be finite, got {shown}"


@pytest.mark.parametrize(
    ("told", "path"),
    [("./act", "act"), ("../act", "../act"), ("lab/act", None), ("/models/act", None)],
)
def test_a_models_folder_starts_at_the_file_where_it_begins_with_a_dot(
    told: str, path: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "factory.yaml"
    file.write_text(f"{GOOD}models:\n  a: {{backend: lerobot, options: {{model: {told}}}}}\n")
    expected = told if path is None else str(tmp_path / path)
    assert load_factory(file).models["a"].options["model"] == expected, "a name of a hub stays as it is"
