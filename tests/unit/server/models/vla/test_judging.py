"""How a monitor judges a task by its steps."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_server.models.vla import judging
from rosa_sim.training.data import words
from rosa_sim.training.data.words import monitor_text

RULE = words.rule_text(words.rule_of([0, 2]))
ONGOING, DONE, FAILED = (0.9, 0.05, 0.05), (0.02, 0.95, 0.03), (0.02, 0.03, 0.95)
DOUBTFUL = (0.01, 0.45, 0.54)  # done or failed: what a picture of a sorted table often says


def said(*likelihoods: tuple[float, float, float]) -> str:
    steps = tuple(f"step {number}" for number in range(len(likelihoods) - 1))
    return judging.Task("how is it?", steps).judged([np.array(one) for one in likelihoods], 0.6)[0]


def test_the_same_is_asked_of_the_task_and_of_each_step() -> None:
    question = words.MONITOR_QUESTIONS[1]
    steps = [words.subtask_text(0, 0), words.subtask_text(1, 1)]
    asked = judging.Task.of("\n".join([monitor_text(RULE, question), *steps, words.ALL_DONE, ""])).questions
    assert asked == [monitor_text(text, question) for text in (RULE, *steps)]


def test_a_prompt_of_one_line_is_asked_as_it_is() -> None:
    assert judging.Task.of("").questions == [""]
    assert judging.Task.of("is it done?").questions == ["is it done?"]
    assert judging.Task.of("is it done?\nput it away").questions == [
        "is it done?",
        f"put it away: {judging.QUESTION}",
    ]


def test_there_are_no_more_questions_than_the_engine_takes() -> None:
    assert len(judging.Task.of("\n".join(["how is it?"] * 100)).questions) == 1 + judging.MAX_STEPS


def test_without_steps_a_task_is_ongoing_when_in_doubt() -> None:
    assert said(DOUBTFUL) == "ongoing"
    assert (said(ONGOING), said(DONE), said(FAILED)) == ("ongoing", "done", "failed")


def test_the_steps_say_whether_a_task_that_is_over_is_done_or_failed() -> None:
    assert said(DOUBTFUL, DONE, DONE, DONE) == "done"
    assert said(DOUBTFUL, DONE, FAILED, DONE) == "failed"
    assert said(DONE, DONE, FAILED, DONE) == "failed"
    assert said((0.1, 0.1, 0.8), DONE, DONE, DONE) == "done"


@pytest.mark.parametrize("whole", [ONGOING, DONE, FAILED])
def test_a_task_is_ongoing_while_one_of_its_steps_is(whole: tuple[float, float, float]) -> None:
    assert said(whole, DONE, ONGOING, FAILED) == "ongoing"
    assert said(whole, DONE, DOUBTFUL) == "ongoing"


def test_a_task_is_ongoing_while_there_is_something_left_that_was_not_planned_yet() -> None:
    assert said(ONGOING, DONE, DONE) == "ongoing"
    assert said(ONGOING, DONE, FAILED) == "ongoing", "the rest is still sorted"


def test_a_planner_does_not_judge_alone() -> None:
    assert said((0.01, 0.01, 0.98), DONE, DONE, DONE) == "failed"


def test_the_plan_that_nothing_is_left_is_the_one_that_the_model_was_trained_on() -> None:
    assert judging.NOTHING_LEFT == words.ALL_DONE


def test_what_is_done_is_told_and_is_not_asked_again() -> None:
    question = words.MONITOR_QUESTIONS[0]
    first, second = words.subtask_text(0, 0), words.subtask_text(1, 1)
    task = judging.Task.of("\n".join([monitor_text(RULE, question), first, second]))
    assert task.judged([np.array(one) for one in (DOUBTFUL, FAILED, DONE)], 0.6) == (
        "failed",
        f"done: {second}",
    )
    task = judging.Task.of(
        "\n".join([monitor_text(RULE, question), f"done: {first}", f"done: {second}", "done: all done"])
    )
    assert task.questions == [monitor_text(RULE, question)] and task.some_were_done
    assert task.judged([np.array(DOUBTFUL)], 0.6) == ("done", "")
    assert task.judged([np.array(ONGOING)], 0.6) == ("ongoing", "")
    assert task.judged([np.array((0.01, 0.01, 0.98))], 0.6) == ("failed", "")
    nothing_planned = judging.Task.of(f"{monitor_text(RULE, question)}\ndone: {words.ALL_DONE}")
    assert not nothing_planned.some_were_done
