"""A vLLM-Omni server (`/v1/realtime/robot/openpi`) as a backend: openpi's protocol with sessions.

It differs from openpi's own server in four ways. Each observation names a `session_id`, since its models keep frames
and caches of an episode. `endpoint: reset` begins an episode anew and is answered by a text. An answer is a bare array.
An error is a text or a map of type `error`, and the connection stays. Source: vllm-project/vllm-omni,
`entrypoints/openai/realtime/robot/`, read 2026-11; this file was written from its messages.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.remote.arrays import Dialect, pack
from rosa_server.models.remote.asking import ServerError, arrays_of, last_line, left_s
from rosa_server.models.remote.openpi import OpenpiRemoteBackend

PATH = "/v1/realtime/robot/openpi"
RESET = "reset successful"
MAX_SESSIONS = 1024  # of robots, whose last call is remembered


class VllmOmniRemoteBackend(OpenpiRemoteBackend):
    """As `OpenpiRemoteBackend`, with a session for each robot.

    A session begins anew with a robot's first call, with another prompt, and after `idle_s` without a call: those are
    the signs of another attempt that a request carries. A server with room for one session at a time begins it anew
    whenever robots take turns; give each robot its own server where its model keeps what it saw.
    """

    def __init__(
        self,
        url: str,
        images: Mapping[str, Sequence[int]] | None = None,
        state: Mapping[str, int] | None = None,
        prompt_key: str = "prompt",
        api_key: str = "",
        timeout_s: float = 30.0,
        wait_s: float = 60.0,
        idle_s: float = 10.0,
        embodiment: str = "",
    ) -> None:
        """`url`: such as ws://127.0.0.1:8091, to which the path is added where there is none; `embodiment`: which of
        the server's own mappings takes the observation; empty: its default. The rest is as of `openpi_remote`. Raises
        `ValueError`.
        """
        if not urlsplit(url).path.strip("/"):
            url = url.rstrip("/") + PATH
        super().__init__(url, images, state, prompt_key, api_key, timeout_s, wait_s)
        self._idle_s, self._embodiment = idle_s, embodiment
        self._sessions: dict[str, tuple[str, float]] = {}  # robot -> its prompt, and when it called last

    def _answer(self, one: ModelInput) -> ModelOutput:
        now_s = time.monotonic()
        prompt, called_s = self._sessions.pop(one.robot, ("", -np.inf))
        if prompt != one.prompt or now_s - called_s > self._idle_s:
            self._reset(one)
        output = super()._answer(one)
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[one.robot] = one.prompt, time.monotonic()  # a call that failed begins anew
        return output

    def _reset(self, one: ModelInput) -> None:
        until_s = time.monotonic() + left_s([one], self._timeout_s)
        frame = pack({"endpoint": "reset", "session_id": _session(one)}, Dialect.OPENPI)
        said = self._exchanged(one, frame, until_s)
        if said != RESET:
            self._disconnect()
            words = last_line(said) if isinstance(said, str) else "an answer that is no text"
            raise ServerError(f"{self._url}: reset: expected {RESET!r}, got {words}")

    def _told(self, one: ModelInput) -> dict[str, Any]:
        told = super()._told(one) | {"endpoint": "infer", "session_id": _session(one)}
        return told | ({"embodiment": self._embodiment} if self._embodiment else {})

    def _arrays(self, content: Any) -> dict[str, Any]:
        if isinstance(content, np.ndarray):
            return {"actions": content}
        if isinstance(content, dict) and content.get("type") == "error":
            words = content.get("error") or content.get("message") or "an error without words"
            raise ServerError(f"{self._url}: {last_line(str(words))}")
        return arrays_of(content, self._url)


def _session(one: ModelInput) -> str:
    return one.robot or "default"
