"""A server that speaks OpenAI's chat protocol: vLLM, or another that has its `logprobs`.

A call ends at its deadline; a server that is away is an error of the call, and of a load a reason to try again.
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
from rosa_server.models.backend import ModelInput
from rosa_server.models.language.questions import Question
from rosa_server.models.registry import BackendError

TOP = 20  # likeliest first tokens that are asked for: the most that vLLM gives unless it is told otherwise
MAX_ANSWER_BYTES = 1 << 20
QUALITY = 90  # of the pictures' JPEG


class ServerError(RuntimeError):
    """The server could not be asked, or answered an error."""


class ChatServer:
    """One server and one of its models."""

    def __init__(self, url: str, model: str, key: str, timeout_s: float, wait_s: float) -> None:
        """Raises `ValueError` for an address that is none."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url: expected http://HOST:PORT/v1, got {url!r}")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = parts.path.rstrip("/")
        self._url, self._model, self._key = url, model, key
        self._timeout_s, self._wait_s = timeout_s, wait_s

    def open(self) -> None:
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

    def said(
        self, one: ModelInput, pictures: Sequence[NDArray[np.uint8]], question: Question, timeout_s: float
    ) -> str | dict[str, float]:
        """The text, or of a choice the likelihoods of the likeliest first tokens.

        Raises `ServerError`, and `TimeoutError` when `timeout_s` came first.
        """
        content: list[dict[str, Any]] = []
        for picture in pictures:
            jpeg = encode_image(picture, "jpeg", QUALITY).data
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
        answer = self._call("POST", "/chat/completions", asked, timeout_s, one)
        try:
            choice = answer["choices"][0]
            if not question.choices:
                text = choice["message"]["content"]
                if not isinstance(text, str):  # null where a model has only thought
                    raise TypeError(f"content: expected a text, got {text!r:.40}")
                return text
            tops = choice["logprobs"]["content"][0]["top_logprobs"]
            return {str(top["token"]): share_of(top["logprob"]) for top in tops}
        except (KeyError, IndexError, TypeError, ValueError) as error:
            what = "no logprobs" if question.choices else "no text"
            raise ServerError(f"{self._url}: it answered {what}: {error!r}") from None

    def close(self) -> None:
        """Connections end with their calls."""

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
        except (OSError, http.client.HTTPException, AttributeError) as error:
            if one is not None and time.monotonic() - began_s >= 0.95 * timeout_s:
                raise TimeoutError(f"{self._url} did not answer within {timeout_s:.1f} s") from error
            raise ServerError(f"{self._url}{path}: {type(error).__name__}: {error}") from error
        finally:
            ends.cancel()
            connection.close()
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ServerError(f"{self._url}{path}: no JSON: {type(error).__name__}: {error}") from error
        if not isinstance(answer, dict):
            raise ServerError(f"{self._url}{path}: expected a JSON object")
        return answer


def share_of(logprob: Any) -> float:
    """The likelihood that a token's `logprob` says. Raises `ValueError` for NaN, of a model that computes nothing."""
    told = float(logprob)
    if math.isnan(told):
        raise ValueError("a logprob is NaN")
    return math.exp(min(0.0, told))


def _shut(connection: http.client.HTTPConnection) -> None:
    """End a call that another thread waits in."""
    if (sock := connection.sock) is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
