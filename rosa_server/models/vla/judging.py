"""A monitor's question about a task of several steps: asked about the task and about each step, and judged together.

One look at a finished table does not show which block belongs where; the question about a step names both.
What was done stays done: a block that lies in its bin may be hidden by the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rosa_contract.wire.progress import MAX_STEPS, STEP_DONE
from rosa_server.models.vla.speech import VERDICTS

ONGOING, DONE, FAILED = VERDICTS["monitor"]
NOTHING_LEFT = "all done"  # a plan, but no step
QUESTION = "ongoing, done, or failed?"
# Of the task as a whole: the planner may have read the rule wrongly, and then every step is done.
FAILED_AS_A_WHOLE = 0.98


@dataclass(frozen=True)
class Task:
    """What a monitor is asked about: a task, its steps that are to be judged, and whether others were done before."""

    question: str
    steps: tuple[str, ...] = ()
    how: str = QUESTION
    some_were_done: bool = False

    @staticmethod
    def of(prompt: str) -> Task:
        """The first line of `prompt` is `TASK: QUESTION`, each further line a step, `done: STEP` if it was done."""
        whole, *lines = prompt.split("\n")
        _, colon, question = whole.rpartition(": ")
        named = [line.strip() for line in lines]
        steps = [line for line in named if not line.startswith(STEP_DONE) and line not in ("", NOTHING_LEFT)]
        before = any(line.startswith(STEP_DONE) and line != STEP_DONE + NOTHING_LEFT for line in named)
        return Task(whole, tuple(steps[-MAX_STEPS:]), question if colon else QUESTION, before)

    @property
    def questions(self) -> list[str]:
        """About the task, then the same about each step."""
        return [self.question, *(f"{step}: {self.how}" for step in self.steps)]

    def judged(self, likelihoods: Sequence[NDArray[np.floating]], certainty: float) -> tuple[str, str]:
        """The verdict, and a line `done: STEP` for each step that is done.

        `likelihoods` of ongoing, done and failed `(3,)`, to each of `questions`. "done" and "failed" need `certainty`,
        else the task, or the step, is ongoing. With steps, the task is ongoing while it or a step is, failed when a
        step is, and done when all are.
        """
        whole, *each = likelihoods
        said = [_said(one, certainty) for one in each]
        done = [f"{STEP_DONE}{step}" for step, word in zip(self.steps, said, strict=True) if word == DONE]
        text = "\n".join(done)
        if not said and not self.some_were_done:
            return _said(whole, certainty), text
        if VERDICTS["monitor"][int(whole.argmax())] == ONGOING or ONGOING in said:
            return ONGOING, text
        return (FAILED if FAILED in said or whole[2] >= FAILED_AS_A_WHOLE else DONE), text


def _said(likelihood: NDArray[np.floating], certainty: float) -> str:
    best = int(likelihood.argmax())
    return VERDICTS["monitor"][best] if likelihood[best] >= certainty else ONGOING
