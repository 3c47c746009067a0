"""The steps that System 2 has planned, and how the monitor hears of them."""

from __future__ import annotations

import pytest

from rosa_client.runtime.commands import Alert, Decision, MoveTo, TaskEnded
from rosa_client.runtime.machines.task_machine import State
from rosa_client.runtime.parts.planned import Planned, besides
from rosa_contract.errors import ConfigError
from rosa_contract.wire.progress import MAX_STEPS
from tests.unit.client.runtime.stage import SYSTEM2, Stage

MONITOR = "    monitor: {model: m, slo_ms: 300, freq_hz: 5, prompt: 'how is it?', plans_after: 2}"


def planned(*plans: str, after: int = 2) -> Planned:
    made = Planned(after)
    for plan in plans:
        made = made.and_then(plan)
    return made


def test_a_step_is_a_plan_that_was_made_twice_in_a_row_and_is_named_once() -> None:
    made = planned("red", "red", "red", "blue", "grey", "blue", "blue", "red", "red")
    assert made.steps == ("red", "blue")
    assert made.after("how is it?") == "how is it?\nred\nblue"


def test_without_steps_the_prompt_stays_as_it_is() -> None:
    assert planned("red", "red", after=0).after("how is it?") == "how is it?"
    assert planned("red").after("how is it?") == "how is it?"


def test_a_plan_is_one_line_and_an_empty_one_is_no_step() -> None:
    assert planned("put\nred  away", "", after=1).steps == ("put red away",)


def test_the_newest_steps_are_remembered() -> None:
    made = planned(*(f"step {number}" for number in range(MAX_STEPS + 2)), after=1)
    assert len(made.steps) == MAX_STEPS and made.steps[0] == "step 2"


def test_a_step_is_done_when_the_monitor_said_so_twice_in_a_row_and_stays_so() -> None:
    made = planned("red", "red", "blue", "blue")
    for text, done in (
        ("done: red\ndone: green", set()),
        ("done: blue", set()),
        ("done: red", set()),
        ("done: red\nit is dark", {"red"}),
        ("", {"red"}),
    ):
        made = made.heard(text)
        assert made.done == done
    assert made.after("how is it?") == "how is it?\ndone: red\nblue"
    assert made.and_then("red").and_then("red").done == {"red"}


def test_which_steps_are_done_is_no_news_for_people() -> None:
    assert besides("done: red\nout_of_range: dark\ndone: blue") == "out_of_range: dark"
    assert besides("") == ""


def stage_with_steps() -> Stage:
    """System 2 has planned "red" three times."""
    stage = Stage(SYSTEM2, MONITOR)
    stage.good.update(system1="", monitor="ongoing")
    stage.start()
    for _ in range(3):
        stage.answer(stage.send_of("system2"), text="red")
    return stage


def test_the_monitor_is_told_the_steps_of_its_task_and_no_other_component_is() -> None:
    stage = stage_with_steps()
    assert stage.send_of("monitor").prompt == "how is it?\nred"
    assert stage.send_of("system2").prompt == "plan"


def test_the_monitor_is_told_which_steps_were_done() -> None:
    stage = stage_with_steps()
    del stage.good["monitor"]
    for _ in range(2):
        stage.answer(stage.send_of("monitor"), verdict="ongoing", text="done: red")
    assert stage.send_of("monitor").prompt == "how is it?\ndone: red"
    assert not [one for one in stage.of(Decision) if one.cause == "monitor_says"]


def test_another_attempt_keeps_the_steps_since_it_is_at_the_same_scene() -> None:
    stage = stage_with_steps()
    stage.good["monitor"] = "failed"
    stage.run_until(MoveTo)
    assert stage.core.state is State.RESETTING
    stage.good["monitor"] = "ongoing"
    assert stage.send_of("monitor").prompt == "how is it?\nred"


@pytest.mark.parametrize(("choice", "told"), [("resume", "how is it?\nred"), ("retry", "how is it?")])
def test_who_chooses_to_try_again_may_have_changed_the_scene(choice: str, told: str) -> None:
    stage = stage_with_steps()
    stage.emergency_stop = True
    stage.run_until(Alert)
    stage.emergency_stop = False
    stage.run(0.1)
    stage.decide(choice)
    assert stage.send_of("monitor").prompt == told


def test_the_next_task_begins_without_steps() -> None:
    stage = stage_with_steps()
    stage.good["monitor"] = "done"
    stage.run_until(TaskEnded)
    stage.good["monitor"] = "ongoing"
    stage.start()
    assert stage.send_of("monitor").prompt == "how is it?"


@pytest.mark.parametrize(
    "components",
    [(MONITOR,), (SYSTEM2, "    safety: {model: s, slo_ms: 200, freq_hz: 5, plans_after: 1}")],
)
def test_only_a_monitor_hears_of_plans_and_only_where_there_are_any(components: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"plans_after: expected 0, got [12]: only a monitor gets plans"):
        Stage(*components)
