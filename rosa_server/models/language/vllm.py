"""The same questions to vLLM: a server that the user runs, or vLLM itself in this worker.

It batches continuously by itself, so calls go to it as they come, `at_once` of them at a time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.backend import Capabilities, ModelInput, ModelOutput
from rosa_server.models.language.chat_server import ChatServer, ServerError
from rosa_server.models.language.pictures import USUAL_PX, shows, usual
from rosa_server.models.language.questions import Question, question_of
from rosa_server.models.language.questions import questions as questions_of
from rosa_server.models.language.vllm_engine import VllmEngine

__all__ = ["ServerError", "VllmBackend", "likelihoods"]


class Asked(Protocol):
    """Whoever answers: a server, or an engine in this process."""

    def open(self) -> None:
        """Until it can be asked. Raises `BackendError`."""

    def said(
        self, one: ModelInput, pictures: Sequence[NDArray[np.uint8]], question: Question, timeout_s: float
    ) -> str | dict[str, float]:
        """The text, or of a choice the likelihoods of the likeliest first tokens."""

    def close(self) -> None:
        """Let go of it."""


class VllmBackend:
    """Answers a verdict by the likelihoods of the allowed words' first tokens, or a text."""

    def __init__(
        self,
        url: str = "",
        model: str = "",
        cameras: Sequence[str] = ("front",),
        questions: Mapping[str, Mapping[str, Any]] | None = None,
        at_once: int = 16,
        timeout_s: float = 30.0,
        api_key: str = "",
        wait_s: float = 60.0,
        engine: Mapping[str, Any] | None = None,
    ) -> None:
        """`url`: of a server, such as http://127.0.0.1:8000/v1; without it vLLM runs here, and `model` is a folder or a
        name. `model` of a server: as it names it, default: the only one that it has; `timeout_s`: of a call without a
        deadline; `wait_s`: how long a server that is starting is waited for; `engine`: arguments of vLLM's own engine,
        such as `{max_model_len: 4096}`, only without `url`.

        Raises `ValueError`.
        """
        if url and engine:
            raise ValueError("engine: expected none with `url`: that server has arguments of its own")
        if not url and not model:
            raise ValueError("url: expected that of a server, or `model` for vLLM in the worker itself")
        self.input_spec = shows(cameras)
        self.max_batch, self.memory_mb = 1, 0.0
        self.capabilities = Capabilities(at_once=at_once, nominal=usual(cameras))
        self._timeout_s = timeout_s
        self._questions = questions_of(questions or {})
        for component, question in self._questions.items():
            _check_beginnings(component, question)
        self._asked: Asked = (
            ChatServer(url, model, api_key, timeout_s, wait_s)
            if url
            else VllmEngine(model, len(self.input_spec.images), at_once, engine or {})
        )

    def load(self) -> None:
        """Raises `BackendError`, `FileNotFoundError`, and `ServerError` where a server is not there."""
        self._asked.open()

    def warm_up(self) -> None:
        """One question of each kind."""
        images = dict.fromkeys(self.input_spec.images, np.zeros((*USUAL_PX, 3), np.uint8))
        for component in self._questions:
            self.infer([ModelInput(component, "warm up", images)])

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One output per input. Raises `ServerError`, and `TimeoutError` when a deadline came first."""
        return [self._answer(one) for one in batch]

    def close(self) -> None:
        self._asked.close()

    def _answer(self, one: ModelInput) -> ModelOutput:
        question = question_of(self._questions, one.component)
        if missing := [camera for camera in self.input_spec.images if camera not in one.images]:
            raise ValueError(f"image {missing[0]!r} is missing; there are {sorted(one.images)}")
        pictures = [one.images[camera] for camera in self.input_spec.images]
        left_s = min(self._timeout_s, one.deadline_s - time.monotonic())
        if left_s <= 0:
            raise TimeoutError("the deadline has come")
        said = self._asked.said(one, pictures, question, left_s)
        if isinstance(said, str):
            return ModelOutput(text=said.strip())
        return question.verdict(likelihoods(question.words, said))


def likelihoods(words: Sequence[str], likeliest: Mapping[str, float]) -> NDArray[np.float64]:
    """Of each allowed word `(words,)`: that of the tokens with which it, and no other word, begins."""
    found = np.zeros(len(words))
    for token, share in likeliest.items():
        said = token.strip().lower()
        begins = [index for index, word in enumerate(words) if said and word.lower().startswith(said)]
        if len(begins) == 1:
            found[begins[0]] += share
    return found


def _check_beginnings(component: str, question: Question) -> None:
    """Raise `ValueError` for words that cannot be told apart by their first token."""
    firsts = {word.strip().lower()[:1] for word in question.words}
    if len(firsts) < len(question.words):
        raise ValueError(
            f"questions.{component}.choices: {', '.join(question.words)} begin alike; a server tells words apart by"
            " their first token, so give words with different first letters"
        )
