"""What a model of words is asked for each component, and what its answer means. Pure.

Where the answer is a choice, it is the likeliest of the allowed words, so that no model can answer beside the question.
A verdict that a robot acts on needs `certainty`; below it the harmless one is given: the task is ongoing, and what may
be unsafe is unsafe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import Formatter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.tasks import MONITOR, SAFETY, SYSTEM2
from rosa_contract.wording import nearest
from rosa_server.models.backend import ModelInput, ModelOutput

FIELDS = ("prompt", "robot", "component")
VERDICTS: Mapping[str, tuple[str, ...]] = {MONITOR: ("ongoing", "done", "failed"), SAFETY: ("safe", "unsafe")}
KEYS = ("prompt", "choices", "certainty", "unsure", "max_new_tokens")
MAX_NEW_TOKENS = 48


@dataclass(frozen=True)
class Question:
    """How one component's request becomes a text, and the answer an output."""

    prompt: str = "{prompt}"
    choices: Mapping[str, str] | None = None  # word -> verdict; None: the answer is a text
    certainty: float = 0.5  # of the likeliest verdict
    unsure: str = ""  # verdict below it
    max_new_tokens: int = MAX_NEW_TOKENS

    def text(self, one: ModelInput) -> str:
        """What the model is asked."""
        return self.prompt.format(prompt=one.prompt, robot=one.robot, component=one.component)

    @property
    def words(self) -> tuple[str, ...]:
        """The allowed answers; none where the answer is a text."""
        return tuple(self.choices or ())

    def verdict(self, likelihoods: NDArray[np.floating]) -> ModelOutput:
        """From the likelihoods `(words,)` of the allowed words, of any sum above 0."""
        assert self.choices is not None
        total = float(np.sum(likelihoods))
        shares = np.asarray(likelihoods, np.float64) / total if total > 0 else np.zeros(len(self.choices))
        of: dict[str, float] = {}
        for share, verdict in zip(shares, self.choices.values(), strict=True):
            of[verdict] = of.get(verdict, 0.0) + float(share)
        best = max(of, key=of.__getitem__)
        said = best if of[best] >= self.certainty else self.unsure
        return ModelOutput(verdict=said, text=", ".join(f"{name} {share:.2f}" for name, share in of.items()))


DEFAULTS: Mapping[str, Question] = {
    SYSTEM2: Question("{prompt}\nWhat should the robot do next? Answer with one short instruction."),
    MONITOR: Question(
        "{prompt}\nLook at the pictures. Is this task ongoing, done, or failed? Answer with one word.",
        {word: word for word in VERDICTS[MONITOR]},
        0.6,
        "ongoing",
    ),
    SAFETY: Question(
        "{prompt}\nLook at the pictures. Is it safe for the robot to move on? Answer with one word, safe or unsafe.",
        {word: word for word in VERDICTS[SAFETY]},
        0.6,
        "unsafe",
    ),
}


def questions(given: Mapping[str, Mapping[str, Any]]) -> dict[str, Question]:
    """Component -> its question: the options of a factory file over the defaults. Raises `ValueError`."""
    made = dict(DEFAULTS)
    for component, settings in given.items():
        where = f"questions.{component}"
        for key in settings:
            if key not in KEYS:
                raise ValueError(
                    f"{where}: no setting {key!r}{nearest(str(key), KEYS)}; there are {', '.join(KEYS)}"
                )
        choices = settings.get("choices", made.get(component, Question()).choices)
        if isinstance(choices, Sequence) and not isinstance(choices, str):
            choices = {str(word): str(word) for word in choices}
        question = replace(made.get(component, Question()), **{**settings, "choices": choices})
        _check(where, component, question)
        made[component] = question
    return made


def _check(where: str, component: str, question: Question) -> None:
    try:
        named = [name for _, name, _, _ in Formatter().parse(question.prompt) if name is not None]
    except ValueError as error:
        raise ValueError(f"{where}.prompt: {error}; write {{{{ for a brace") from None
    if unknown := [name for name in named if name not in FIELDS]:
        raise ValueError(f"{where}.prompt: no field {{{unknown[0]}}}; there are {', '.join(FIELDS)}")
    if question.choices is None:
        return
    if not isinstance(question.choices, Mapping) or len(question.choices) < 2:
        raise ValueError(f"{where}.choices: expected two words or more, got {question.choices!r}")
    if not 0 <= question.certainty <= 1:
        raise ValueError(f"{where}.certainty: expected 0 to 1, got {question.certainty}")
    known = VERDICTS.get(component, tuple(question.choices.values()))
    for verdict in (*question.choices.values(), question.unsure):
        if verdict not in known and not (verdict == "" and component not in VERDICTS):
            raise ValueError(f"{where}: {component} answers {', '.join(known)}, got {verdict!r}")


def question_of(known: Mapping[str, Question], component: str) -> Question:
    """A component without its own question is asked its prompt, and answers a text."""
    return known.get(component, Question())
