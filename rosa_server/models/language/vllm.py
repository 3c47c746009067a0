"""The same questions to a server that speaks OpenAI's chat protocol: vLLM, or another that has its `logprobs`.

The server batches continuously by itself, so calls go to it as they come, `at_once` of them at a time. A call ends at
its deadline; a server that is away is an error of the call, and of a load a reason to try again.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import math
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from rosa_contract.wire.images import encode_image
from rosa_server.models.backend import Capabilities, ModelInput, ModelOutput
from rosa_server.models.language.pictures import USUAL_PX, shows, usual
from rosa_server.models.language.questions import Question, question_of
from rosa_server.models.language.questions import questions as questions_of
from rosa_server.models.registry import BackendError

TOP = 20  # likeliest first tokens that are asked for: the most that vLLM gives unless it is told otherwise
MAX_ANSWER_BYTES = 1 << 20
QUALITY = 90  # of the pictures' JPEG


class ServerError(RuntimeError):
    """The server could not be asked, or answered an error."""


class VllmBackend:
    """Answers a verdict by the likelihoods of the allowed words' first tokens, or a text."""

    def __init__(
        self,
        url: str,
        model: str = "",
        cameras: Sequence[str] = ("front",),
        questions: Mapping[str, Mapping[str, Any]] | None = None,
        at_once: int = 16,
        timeout_s: float = 30.0,
        api_key: str = "",
        wait_s: float = 60.0,
    ) -> None:
        """`url`: such as http://127.0.0.1:8000/v1; `model`: as the server names it, default: the only one that it has;
        `timeout_s`: of a call without a deadline; `wait_s`: how long a server that is starting is waited for.

        Raises `ValueError`.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url: expected http://HOST:PORT/v1, got {url!r}")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = parts.path.rstrip("/")
        self.input_spec = shows(cameras)
        self.max_batch, self.memory_mb = 1, 0.0
        self.capabilities = Capabilities(at_once=at_once, nominal=usual(cameras))
        self._url, self._model, self._key = url, model, api_key
        self._timeout_s, self._wait_s = timeout_s, wait_s
        self._questions = questions_of(questions or {})
        for component, question in self._questions.items():
            _check_beginnings(component, question)

    def load(self) -> None:
        """Wait for the server, and find its model. Raises `BackendError`, and `ServerError` where it is not there."""
        until_s = time.monotonic() + self._wait_s
        while True:
            try:
                known = [
                    str(one["id"]) for one in self._call("GET", "/models", None, self._timeout_s)["data"]
                ]
                break
            except ServerError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(0.5)
            except (KeyError, TypeError) as error:
                raise BackendError("no_server", f"{self._url}: it lists no models: {error!r}") from error
        if not self._model and len(known) == 1:
            self._model = known[0]
        if self._model not in known:
            asked = f"it has no model {self._model!r}" if self._model else "say which `model`"
            raise BackendError("no_server", f"{self._url}: {asked}; there are {', '.join(known) or 'none'}")

    def warm_up(self) -> None:
        """One question of each kind."""
        images = dict.fromkeys(self.input_spec.images, np.zeros((*USUAL_PX, 3), np.uint8))
        for component in self._questions:
            self.infer([ModelInput(component, "warm up", images)])

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One output per input. Raises `ServerError`, and `TimeoutError` when a deadline came first."""
        return [self._answer(one) for one in batch]

    def close(self) -> None:
        """Connections end with their calls."""

    def _answer(self, one: ModelInput) -> ModelOutput:
        question = question_of(self._questions, one.component)
        content: list[dict[str, Any]] = []
        for camera in self.input_spec.images:
            if camera not in one.images:
                raise ValueError(f"image {camera!r} is missing; there are {sorted(one.images)}")
            jpeg = encode_image(one.images[camera], "jpeg", QUALITY).data
            address = f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
            content.append({"type": "image_url", "image_url": {"url": address}})
        content.append({"type": "text", "text": question.text(one)})
        asked: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_tokens": question.max_new_tokens,
        }
        if question.choices:
            asked |= {"max_tokens": 1, "logprobs": True, "top_logprobs": TOP}
        left_s = min(self._timeout_s, one.deadline_s - time.monotonic())
        answer = self._call("POST", "/chat/completions", asked, left_s, one)
        try:
            choice = answer["choices"][0]
            if not question.choices:
                return ModelOutput(text=str(choice["message"]["content"]).strip())
            tops = choice["logprobs"]["content"][0]["top_logprobs"]
            likeliest = {str(top["token"]): math.exp(min(0.0, float(top["logprob"]))) for top in tops}
        except (KeyError, IndexError, TypeError, ValueError) as error:
            what = "no logprobs" if question.choices else "no text"
            raise ServerError(f"{self._url}: it answered {what}: {error!r}") from None
        return question.verdict(likelihoods(question.words, likeliest))

    def _call(
        self, method: str, path: str, body: Any, timeout_s: float, one: ModelInput | None = None
    ) -> Mapping[str, Any]:
        if timeout_s <= 0:
            raise TimeoutError("the deadline has come")
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=timeout_s)
        # A server that sends a byte now and then must not hold a call beyond its deadline.
        ends = threading.Timer(timeout_s, _shut, [connection])
        ends.daemon = True
        ends.start()
        if one is not None:
            one.cancellation.when(lambda: _shut(connection))
        began_s = time.monotonic()
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, self._path + path, data, headers)
            response = connection.getresponse()
            content = response.read(MAX_ANSWER_BYTES + 1)
            if response.status != http.HTTPStatus.OK or len(content) > MAX_ANSWER_BYTES:
                said = content[:200].decode("utf-8", "replace").replace("\n", " ")
                words = f"{self._url}{path}: it answered {response.status} {response.reason}: {said}"
                refused = 400 <= response.status < 500 and one is None
                raise BackendError("no_server", words) if refused else ServerError(words)
            answer = json.loads(content)
        except (OSError, http.client.HTTPException, json.JSONDecodeError, AttributeError) as error:
            if one is not None and time.monotonic() - began_s >= 0.95 * timeout_s:
                raise TimeoutError(f"{self._url} did not answer within {timeout_s:.1f} s") from error
            raise ServerError(f"{self._url}{path}: {type(error).__name__}: {error}") from error
        finally:
            ends.cancel()
            connection.close()
        if not isinstance(answer, dict):
            raise ServerError(f"{self._url}{path}: expected a JSON object")
        return answer


def _shut(connection: http.client.HTTPConnection) -> None:
    """End a call that another thread waits in."""
    if (sock := connection.sock) is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


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
