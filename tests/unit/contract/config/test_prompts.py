"""What components are told: the configuration's prompts, filled in by a goal."""

from __future__ import annotations

import pytest

from rosa_contract.config.factory import parse_factory
from rosa_contract.config.prompts import Instruction, problem, prompts
from rosa_contract.config.tasks import Task
from rosa_contract.errors import ConfigError

FACTORY = """
server_cluster: {{num_servers: 1}}
robot_fleet: [{{task: pick, num_robots: 1}}]
pick:
  pipeline: {{action_period_ms: 400}}
  {task}
  components:
    system1: {{model: a, slo_ms: 500, prompt: '{system1}'}}
    monitor: {{model: b, slo_ms: 500, freq_hz: 2, prompt: '{monitor}'}}
"""


def task(task: str = "prompt: pick the cup", system1: str = "", monitor: str = "done?") -> Task:
    return parse_factory(FACTORY.format(task=task, system1=system1, monitor=monitor)).tasks["pick"]


def test_without_a_goals_prompt_the_configuration_speaks() -> None:
    assert prompts(task()) == {"system1": "pick the cup", "monitor": "done?"}
    assert prompts(task(system1="as ever")) == {"system1": "as ever", "monitor": "done?"}


def test_a_goals_prompt_replaces_what_system_1_does_and_fills_fields_elsewhere() -> None:
    told = Instruction("put it back")
    assert prompts(task(system1="as ever"), told) == {"system1": "put it back", "monitor": "done?"}
    filled = prompts(task(system1="Task: {prompt}.", monitor="{prompt}: ongoing, done, or failed?"), told)
    assert filled == {
        "system1": "Task: put it back.",
        "monitor": "put it back: ongoing, done, or failed?",
    }


def test_parameters_stand_for_fields_and_have_defaults() -> None:
    coloured = task(
        "parameters: {colour: red, place: bin}", "the {colour} one into the {place}", "{colour} gone?"
    )
    assert prompts(coloured)["system1"] == "the red one into the bin"
    told = prompts(coloured, Instruction(parameters={"colour": "blue"}))
    assert told == {"system1": "the blue one into the bin", "monitor": "blue gone?"}


def test_braces_that_name_nothing_stay_and_what_is_filled_in_is_not_filled_again() -> None:
    told = prompts(task(system1="{{prompt}} { } {prompt}"), Instruction("say {colour}"))
    assert told["system1"] == "{{prompt}} { } say {colour}"


def test_a_field_that_nothing_fills_is_an_error_of_the_file() -> None:
    with pytest.raises(ConfigError) as caught:
        task("parameters: {colour: red}", "the {color} one")
    assert [one.path for one in caught.value.problems] == ["pick.components.system1.prompt"]
    assert "no parameter {color} (did you mean 'colour'?)" in str(caught.value)


@pytest.mark.parametrize("name", ["prompt", "left hand", "2nd", "grün", "a-b"])
def test_a_parameter_that_no_prompt_can_name_is_an_error_of_the_file(name: str) -> None:
    """One called prompt was never used: `{prompt}` is the task's own, or a goal's."""
    with pytest.raises(ConfigError) as caught:
        task(f"parameters: {{{name}: red}}", "do {prompt}")
    assert [one.path for one in caught.value.problems] == [f"pick.parameters.{name}"]


def test_a_goal_that_names_no_parameter_of_the_task_is_refused_with_the_nearest() -> None:
    coloured = task("parameters: {colour: red}", "the {colour} one")
    assert problem(coloured, Instruction("x", {"colour": "blue"})) == ""
    assert "no parameter 'color' (did you mean 'colour'?)" in problem(
        coloured, Instruction(parameters={"color": "b"})
    )
    assert "the task has none" in problem(task(), Instruction(parameters={"color": "b"}))
    assert "at most 4096 characters" in problem(task(), Instruction("x" * 5000))


def test_what_no_message_carries_is_no_prompt() -> None:
    with pytest.raises(ConfigError) as caught:
        task(monitor="x" * 65_537)
    assert [(one.path, one.cause) for one in caught.value.problems] == [
        ("pick.components.monitor.prompt", "out_of_range")
    ]
    wordy = task(monitor="{prompt} " * 20)
    assert problem(wordy, Instruction("x" * 3000)) == ""
    assert "prompt of monitor: expected at most 65536 characters" in problem(wordy, Instruction("x" * 4000))


def test_a_goal_gives_as_many_parameters_as_its_refusal_says() -> None:
    values = {f"p{number}": "x" for number in range(65)}
    many = task(f"parameters: {{{', '.join(f'{name}: y' for name in values)}}}")
    assert problem(many, Instruction("x", dict(list(values.items())[:64]))) == ""
    assert problem(many, Instruction("x", values)) == "expected at most 64 parameters, got 65"
