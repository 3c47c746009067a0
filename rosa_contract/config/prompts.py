"""The prompts of a task's components, from the configuration and a goal. Pure.

A component's prompt may have placeholders in braces: `{prompt}`, the instruction, and the task's own `parameters`. A
goal may override their values. Double braces, `{{` and `}}`, are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rosa_contract.config.tasks import GOAL_COUPLED, Task
from rosa_contract.wire.bounds import MAX_TEXT_CHARS
from rosa_contract.wording import nearest

FIELD = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")
PROMPT = "prompt"
MAX_CHARS = 4096  # of a goal's prompt, and of each parameter
MAX_PARAMETERS = 64


@dataclass(frozen=True)
class Instruction:
    """The instruction of a goal. What is empty is taken from the configuration."""

    prompt: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [repr(self.prompt)] if self.prompt else []
        return ", ".join(words + [f"{name}={value!r}" for name, value in self.parameters.items()])


NOTHING = Instruction()


def fields_of(prompt: str) -> list[str]:
    """The placeholders in a prompt."""
    return FIELD.findall(prompt)


def unknown_fields(task: Task) -> Iterator[tuple[str, str]]:
    """(component, what is wrong with its prompt): placeholders that are neither `{prompt}` nor a parameter."""
    known = (PROMPT, *task.parameters)
    for name, component in task.components.items():
        for one in fields_of(component.prompt):
            if one not in known:
                words = f"no parameter {{{one}}}{nearest(one, known)}; give it a value in `parameters`"
                yield name, words


def unusable_parameters(task: Task) -> Iterator[tuple[str, str]]:
    """(parameter, what is wrong with its name): no prompt can use it."""
    for name in task.parameters:
        if name == PROMPT:
            yield name, "is reserved for the task's own `prompt`; choose another name"
        elif not FIELD.fullmatch(f"{{{name}}}"):
            yield (
                name,
                "expected letters, digits and '_', not starting with a digit, as prompts use it in braces",
            )


def long_prompts(task: Task, told: Instruction) -> Iterator[tuple[str, str]]:
    """(component, what is wrong with its prompt): too long for a message."""
    for name, text in prompts(task, told).items():
        if len(text) > MAX_TEXT_CHARS:
            yield (
                name,
                f"expected at most {MAX_TEXT_CHARS} characters once its fields are filled in, got {len(text)}",
            )


def problem(task: Task, told: Instruction) -> str:
    """Why a goal's instruction cannot be carried out, or an empty string."""
    for name in told.parameters:
        if name not in task.parameters:
            known = ", ".join(task.parameters) or "none"
            return f"no parameter {name!r}{nearest(name, task.parameters)}; the task has {known}"
    texts = {PROMPT: told.prompt, **told.parameters}
    if len(told.parameters) > MAX_PARAMETERS:
        return f"expected at most {MAX_PARAMETERS} parameters, got {len(told.parameters)}"
    for name, text in texts.items():
        if len(text) > MAX_CHARS:
            return f"{name}: expected at most {MAX_CHARS} characters, got {len(text)}"
    return next((f"prompt of {name}: {words}" for name, words in long_prompts(task, told)), "")


def prompts(task: Task, told: Instruction = NOTHING) -> dict[str, str]:
    """Component -> its prompt, filled in.

    For System 1 and 2 a prompt without placeholders is replaced by the goal's prompt, if there is one. With neither,
    they get the task's prompt.
    """
    words = {**task.parameters, **told.parameters, PROMPT: told.prompt or task.prompt}
    made = {}
    for name, component in task.components.items():
        text = component.prompt
        if name in GOAL_COUPLED and not fields_of(text):
            made[name] = told.prompt or text or task.prompt
        else:
            made[name] = FIELD.sub(lambda found: words.get(found[1], found[0]), text)
    return made
