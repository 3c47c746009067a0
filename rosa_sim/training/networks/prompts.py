"""What each role is asked and should answer about a look, as tokens: drawn anew for every batch, in many phrasings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.vla.speech import VERDICTS, Speech
from rosa_server.models.vla.tokenizer import FIRST_MERGE, Tokenizer
from rosa_sim.training.data import words
from rosa_sim.training.data.dataset import Data, outcome_of_rule
from rosa_sim.training.data.words import BINS, COLOURS

TOKENS = 512
RULE_SHARE = (
    0.2  # of System 1's prompts that are the rule, where the next subtask is the one that the chunk is for
)
DONE_SHARE = 0.5  # of System 1's prompts that are "all done", where nothing is left to do
WHOLE_SHARE = 0.5  # of the monitor's questions that are about the whole sort
BLURRED_SHARE, BLUR = (
    0.3,
    0.25,
)  # of prompts that lose words, and of their words: other phrasings differ as well
KEYS = {
    *COLOURS,
    *BINS,
    "all",
    "every",
    "everything",
    "rest",
    "others",
    "other",
    "unsafe",
    "safe",
}
NO_POINT = -1


@dataclass(frozen=True)
class AskedLook:
    """One role's question about one look, its answer, and for System 1 what its chunk is for."""

    question: list[int]  # with the mark of the role
    answer: list[int]  # with its end; empty for System 1
    stays: bool = False  # System 1 has nothing to do: the chunk is to hold still
    target: bool = False  # the prompt names the subtask's block and bin
    about: int = NO_POINT  # the point that the question is about


def make_speech() -> Speech:
    """A tokenizer trained on all trained phrasings, and all plans."""
    colours, sides, rules = range(len(COLOURS)), range(len(BINS)), range(0, 1 << len(COLOURS), 5)
    plans = [words.plan_text((colour, side)) for colour in colours for side in sides] + [words.ALL_DONE]
    texts = [
        words.subtask_text(colour, side, phrasing)
        for colour in colours
        for side in sides
        for phrasing in range(len(words.SUBTASKS))
    ]
    texts += [words.rule_text(rule, phrasing) for rule in rules for phrasing in range(len(words.RULES))]
    texts += [*words.SAFETY_QUESTIONS, *words.MONITOR_QUESTIONS] * 20
    verdicts = [word for role in VERDICTS.values() for word in role]
    speech = Speech(Tokenizer.train([*texts, *[*plans, *verdicts] * 20], TOKENS), tuple(plans))
    speech.check()
    return speech


class PromptAsker:
    """Draws questions about the looks of a data set."""

    def __init__(self, data: Data, speech: Speech) -> None:
        self._data, self._speech = data, speech
        self._whole = outcome_of_rule(data)
        self._tokens = lru_cache(maxsize=100_000)(speech.tokenizer.encode)
        self._key_tokens = {
            token
            for word in KEYS
            for spaced in (word, f" {word}")
            for token in speech.tokenizer.encode(spaced)
        }

    def act(self, row: int, rng: np.random.Generator) -> AskedLook:
        """System 1's prompt: a subtask, the rule, or that all is done."""
        data = self._data
        subtask = (int(data["colour"][row]), int(data["bin"][row]))
        planned = tuple(int(one) for one in data["plan"][row])
        if planned[0] < 0 and rng.random() < DONE_SHARE:
            return AskedLook(self._question("system1", words.ALL_DONE, rng), [], stays=True)
        if planned == subtask and rng.random() < RULE_SHARE:
            return AskedLook(
                self._question("system1", self._rule(row, rng), rng), [], target=True, about=subtask[0]
            )
        question = self._question("system1", self._subtask(row, rng), rng)
        return AskedLook(question, [], target=True, about=subtask[0])

    def speak(self, role: str, row: int, rng: np.random.Generator) -> AskedLook:
        """A question of System 2, safety or monitor, with the true answer."""
        data, about = self._data, NO_POINT
        if role == "system2":
            planned = tuple(int(one) for one in data["plan"][row])
            answer = words.plan_text(None if planned[0] < 0 else (planned[0], planned[1]))
            text = self._rule(row, rng)
        elif role == "safety":
            answer = words.SAFE[int(data["safe"][row])]
            text = str(rng.choice(words.SAFETY_QUESTIONS)) if rng.random() < 0.8 else ""
        else:
            whole = rng.random() < WHOLE_SHARE
            answer = words.OUTCOMES[int((self._whole if whole else data["outcome"])[row])]
            task = self._rule(row, rng) if whole else self._subtask(row, rng)
            about = NO_POINT if whole else int(data["colour"][row])
            text = words.monitor_text(task, str(rng.choice(words.MONITOR_QUESTIONS)))
        return AskedLook(self._question(role, text, rng), self._speech.answer(answer), about=about)

    def _subtask(self, row: int, rng: np.random.Generator) -> str:
        phrasing = int(rng.integers(len(words.SUBTASKS))) if rng.random() < 0.7 else 0
        return words.subtask_text(int(self._data["colour"][row]), int(self._data["bin"][row]), phrasing)

    def _rule(self, row: int, rng: np.random.Generator) -> str:
        return words.rule_text(int(self._data["rule"][row]), int(rng.integers(len(words.RULES))))

    def _question(self, role: str, text: str, rng: np.random.Generator) -> list[int]:
        mark = self._speech.question(role, "")
        tokens = list(self._tokens(text))
        if rng.random() < BLURRED_SHARE:
            noise = rng.random(len(tokens))
            other = rng.integers(0, FIRST_MERGE + 100, len(tokens))
            tokens = [
                token if share > BLUR or token in self._key_tokens else int(instead)
                for token, share, instead in zip(tokens, noise, other, strict=True)
                if share > 0.5 * BLUR or token in self._key_tokens
            ]
        return [*tokens, *mark]


def class_weights(labels: NDArray[np.int64], classes: int) -> NDArray[np.float32]:
    """A weight for each class, so that rare ones count: inverse frequency to the power 0.7, one on average."""
    share = np.bincount(labels, minlength=classes) / max(1, len(labels))
    weight = np.where(share > 0, np.maximum(share, 0.01) ** -0.7, 0.0)
    return (weight / float((weight * share).sum())).astype(np.float32)
