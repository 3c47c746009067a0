"""A policy server of openpi (`scripts/serve_policy.py`), or one that speaks its protocol, as a backend.

WebSocket, msgpack with arrays, the server's metadata first; an error is a text frame. What the server takes and
answers, an adapter says (presets `openpi_droid`, `openpi_libero`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rosa_server.models.backend import Capabilities, ModelInput, ModelOutput
from rosa_server.models.registry import BackendError
from rosa_server.models.remote.arrays import Dialect, WireError, pack, unpack
from rosa_server.models.remote.asking import (
    ServerError,
    arrays_of,
    check,
    last_line,
    left_s,
    spec_of,
    waited_for,
)
from rosa_server.models.requirements import needs

MAX_MESSAGE_BYTES = 64 << 20


class OpenpiRemoteBackend:
    """Hands on what it is given, under the same names, and the prompt; answers the server's arrays."""

    def __init__(
        self,
        url: str,
        images: Mapping[str, Sequence[int]] | None = None,
        state: Mapping[str, int] | None = None,
        prompt_key: str = "prompt",
        api_key: str = "",
        timeout_s: float = 30.0,
        wait_s: float = 60.0,
    ) -> None:
        """`url`: such as ws://127.0.0.1:8000; `images` (name -> height, width) and `state` (name -> values): what it
        takes, where no adapter says so; `prompt_key`: empty, and no prompt is sent; `timeout_s`: of a call without a
        deadline; `wait_s`: how long a server that is starting is waited for. Raises `ValueError`.
        """
        if not url.startswith(("ws://", "wss://")):
            raise ValueError(f"url: expected ws://HOST:PORT, got {url!r}")
        self.input_spec = spec_of(images, state)
        self.capabilities = Capabilities(takes_any=not (images or state))
        self.max_batch, self.memory_mb = 1, 0.0
        self.metadata: Mapping[str, Any] = {}
        self._url, self._prompt_key, self._key = url, prompt_key, api_key
        self._timeout_s, self._wait_s = timeout_s, wait_s
        self._connection: Any = None
        self._open = contextlib.ExitStack()  # closes it

    def load(self) -> None:
        """Wait for the server. Raises `BackendError`, and `ServerError` where it is not there."""
        self._websockets = needs.package("websockets.sync.client", "remote")
        self._closed: Any = needs.package("websockets.exceptions", "remote").WebSocketException
        waited_for(lambda: self._connect(self._timeout_s), self._wait_s)

    def warm_up(self) -> None:
        """Nothing: what the server takes is known when a robot asks; the server warms up for itself."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One output. Raises `ServerError`, and `TimeoutError` when a deadline came first.

        A connection whose answer did not come in time is closed: a late answer must not pass for that of the next call.
        """
        check(self.input_spec, batch, self.max_batch)
        return [self._answer(one) for one in batch]

    def close(self) -> None:
        """Leave the server as it is."""
        self._disconnect()

    def _answer(self, one: ModelInput) -> ModelOutput:
        until_s = time.monotonic() + left_s([one], self._timeout_s)
        answer = self._exchanged(one, pack(self._told(one), Dialect.OPENPI), until_s)
        if isinstance(answer, str):
            self._disconnect()  # it closes after an error
            raise ServerError(f"{self._url}: {last_line(answer)}")
        try:
            content, _ = unpack(answer)
        except WireError as error:
            self._disconnect()
            raise ServerError(f"{self._url}: {error}") from error
        return ModelOutput(arrays=self._arrays(content))

    def _told(self, one: ModelInput) -> dict[str, Any]:
        """What the server is given."""
        told: dict[str, Any] = {**one.images, **one.state}
        if self._prompt_key:
            told[self._prompt_key] = one.prompt
        return told

    def _arrays(self, content: Any) -> dict[str, Any]:
        """The arrays of an answer. Raises `ServerError`."""
        return arrays_of(content, self._url)

    def _exchanged(self, one: ModelInput, frame: bytes, until_s: float) -> str | bytes:
        """The answer to one frame, on a connection that is there or is made anew. Raises as `infer`."""
        fresh = self._connection is None
        if fresh:
            self._connect(until_s - time.monotonic())
        one.cancellation.when(self._interrupt)
        try:
            return self._asked(frame, until_s)
        except ConnectionError:
            if fresh or one.cancellation.cancelled or time.monotonic() >= until_s:
                raise ServerError(f"{self._url}: it closed the connection") from None
            # It has been started anew since the last call.
            self._connect(until_s - time.monotonic())
            try:
                return self._asked(frame, until_s)
            except ConnectionError as error:
                raise ServerError(f"{self._url}: it closed the connection") from error

    def _asked(self, frame: bytes, until_s: float) -> str | bytes:
        """The answer to one frame. Raises `ConnectionError` when the connection has ended, and `TimeoutError`."""
        try:
            self._connection.send(frame)
            answer: str | bytes = self._connection.recv(timeout=max(0.0, until_s - time.monotonic()))
            return answer
        except TimeoutError:
            self._disconnect()
            raise TimeoutError(f"{self._url} did not answer in time") from None
        except (self._closed, OSError) as error:
            self._disconnect()
            raise ConnectionError(str(error)) from error

    def _connect(self, timeout_s: float) -> None:
        """Connect and read what the server says of itself. Raises `ServerError` and `BackendError`."""
        self._disconnect()
        headers = {"Authorization": f"Api-Key {self._key}"} if self._key else None
        try:
            opened = self._websockets.connect(
                self._url,
                compression=None,
                max_size=MAX_MESSAGE_BYTES,
                additional_headers=headers,
                open_timeout=max(0.01, timeout_s),
                close_timeout=0.5,
                ping_interval=None,  # openpi's server answers no ping while it computes
                proxy=None,
            )
            self._connection = self._open.enter_context(opened)
            first = self._connection.recv(timeout=max(0.01, timeout_s))
        except (self._closed, OSError, TimeoutError) as error:
            self._disconnect()
            status = getattr(getattr(error, "response", None), "status_code", 0)
            if status in (401, 403):
                raise BackendError(
                    "no_server", f"{self._url}: it refuses the `api_key` ({status})"
                ) from error
            raise ServerError(f"{self._url}: {type(error).__name__}: {last_line(str(error))}") from error
        try:
            self.metadata = dict(unpack(first)[0]) if isinstance(first, bytes) else {}
        except (WireError, TypeError, ValueError) as error:
            self._disconnect()
            raise BackendError(
                "no_server", f"{self._url}: it does not speak openpi's protocol: {error}"
            ) from error

    def _interrupt(self) -> None:
        """A call that nobody waits for any more; its connection must not be used for the next one."""
        with contextlib.suppress(Exception):
            self._connection.socket.shutdown(2)

    def _disconnect(self) -> None:
        self._connection = None
        with contextlib.suppress(Exception):
            self._open.close()
