"""What a task's components are told, from what the configuration says and what a goal says. Pure.

A component's prompt may name fields in braces: `{prompt}`, what to do, and the task's own `parameters`. A goal may say
what each stands for. Two braces, `{{` and `}}`, are left as they are.
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
    """What a goal says beside its task. Empty: as the configuration says."""

    prompt: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [repr(self.prompt)] if self.prompt else []
        return ", ".join(words + [f"{name}={value!r}" for name, value in self.parameters.items()])


NOTHING = Instruction()


def fields_of(prompt: str) -> list[str]:
    """The fields that a prompt names."""
    return FIELD.findall(prompt)


def unknown_fields(task: Task) -> Iterator[tuple[str, str]]:
    """(component, what is wrong with its prompt): fields that are neither `{prompt}` nor a parameter."""
    known = (PROMPT, *task.parameters)
    for name, component in task.components.items():
        for one in fields_of(component.prompt):
            if one not in known:
                words = f"no parameter {{{one}}}{nearest(one, known)}; give it a value in `parameters`"
                yield name, words


def unusable_parameters(task: Task) -> Iterator[tuple[str, str]]:
    """(parameter, what is wrong with its name): no prompt can name it."""
    for name in task.parameters:
        if name == PROMPT:
            yield name, "is said by the task's own `prompt`; expected another name"
        elif not FIELD.fullmatch(f"{{{name}}}"):
            yield name, "expected letters, digits and '_', no digit first: no prompt can name it in braces"


def long_prompts(task: Task, told: Instruction) -> Iterator[tuple[str, str]]:
    """(component, what is wrong with what it is told): no message carries it."""
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
    """Component -> what it is told.

    System 1 and 2 are told a goal's prompt also where their own names no field: it says what they do instead. Without
    one, and without their own prompt, they are told the task's.
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
