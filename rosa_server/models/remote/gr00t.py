"""A policy server of GR00T (`run_gr00t_server.py`, `inference_service.py`), as a backend.

ZeroMQ REQ/REP, one msgpack map each way, in three dialects: N1.5 takes the flat observation and answers the actions;
N1.6 and N1.7 take it nested with options and answer actions and info. What it takes and answers, an adapter says
(preset `gr00t_libero_panda`), with the flat names: `video.front`, `state.x`, `action.x`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import zmq

from rosa_server.models.backend import Capabilities, ModelInput, ModelOutput
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
from rosa_server.models.stacking import stacked

DIALECTS = {"n1.5": Dialect.NPY, "n1.6": Dialect.NPY, "n1.7": Dialect.ND}
FLAT = "n1.5"
VIDEO, STATE, ACTION = "video", "state", "action"
SLICE_MS = 50  # between two looks at whether anybody still waits


class Gr00tRemoteBackend:
    """Hands on what it is given and answers the server's arrays, `action.NAME` each; a batch is one call."""

    def __init__(
        self,
        url: str,
        dialect: str = "n1.6",
        images: Mapping[str, Sequence[int]] | None = None,
        state: Mapping[str, int] | None = None,
        prompt_key: str = "annotation.human.action.task_description",
        api_token: str = "",
        max_batch: int = 8,
        timeout_s: float = 30.0,
        wait_s: float = 60.0,
    ) -> None:
        """`url`: such as tcp://127.0.0.1:5555; `prompt_key`: as its `get_modality_config` names the language; empty: no
        prompt is sent. The rest is as of `openpi_remote`. Raises `ValueError`.
        """
        if not url.startswith(("tcp://", "ipc://")):
            raise ValueError(f"url: expected tcp://HOST:PORT, got {url!r}")
        if dialect not in DIALECTS:
            raise ValueError(f"dialect: expected {', '.join(DIALECTS)}, got {dialect!r}")
        self.input_spec = spec_of(images, state)
        self.capabilities = Capabilities(takes_any=not (images or state))
        self.max_batch, self.memory_mb = max_batch, 0.0
        self._url, self._dialect, self._prompt_key, self._token = url, dialect, prompt_key, api_token
        self._timeout_s, self._wait_s = timeout_s, wait_s
        self._context: Any = None
        self._socket: Any = None

    def load(self) -> None:
        """Wait for the server. Raises `ServerError` where it is not there."""
        self._context = zmq.Context()
        waited_for(
            lambda: self._call("ping", None, time.monotonic() + min(2.0, self._timeout_s)), self._wait_s
        )

    def warm_up(self) -> None:
        """Nothing: what the server takes is known when a robot asks; the server warms up for itself."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One output per input. Raises `ServerError`, and `TimeoutError` when a deadline came first."""
        check(self.input_spec, batch, self.max_batch)
        until_s = time.monotonic() + left_s(batch, self._timeout_s)
        flat = self._observation(batch)
        asked = flat if self._dialect == FLAT else {"observation": _nested(flat), "options": None}
        answer = self._call("get_action", asked, until_s, batch)
        if self._dialect != FLAT and isinstance(answer, list | tuple) and answer:
            answer = answer[0]
        arrays = arrays_of(answer, self._url)
        outputs = []
        for row in range(len(batch)):
            mine = {}
            for name, values in arrays.items():
                if values.ndim < 2 or len(values) != len(batch):
                    words = f"expected {name} of {len(batch)} robots, got {values.shape}"
                    raise ServerError(f"{self._url}: {words}")
                mine[name if name.startswith(f"{ACTION}.") else f"{ACTION}.{name}"] = values[row]
            outputs.append(ModelOutput(arrays=mine))
        return outputs

    def close(self) -> None:
        """Leave the server as it is."""
        self._drop()
        context, self._context = self._context, None
        if context is not None:
            context.term()

    def _observation(self, batch: Sequence[ModelInput]) -> dict[str, Any]:
        """Flat names; images (robots, frames, height, width, 3), states (robots, 1, values), texts a list each."""
        flat: dict[str, Any] = {}
        for name in batch[0].images:
            pictures = stacked([one.images[name] for one in batch])
            flat[_named(VIDEO, name)] = pictures[:, None] if pictures.ndim == 4 else pictures
        for name in batch[0].state:
            values = np.stack([np.asarray(one.state[name], np.float32) for one in batch])
            flat[_named(STATE, name)] = values[:, None]
        if self._prompt_key:
            flat[self._prompt_key] = [one.prompt if self._dialect == FLAT else [one.prompt] for one in batch]
        return flat

    def _call(self, endpoint: str, data: Any, until_s: float, batch: Sequence[ModelInput] = ()) -> Any:
        """What the server answers. A socket whose answer is late is closed, and the answer with it."""
        if self._socket is None:
            self._socket = self._context.socket(zmq.REQ)
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.connect(self._url)
        request: dict[str, Any] = {"endpoint": endpoint}
        request |= {} if data is None else {"data": data}
        request |= {"api_token": self._token} if self._token else {}
        try:
            self._socket.send(pack(request, DIALECTS[self._dialect]), zmq.NOBLOCK)
            while not self._socket.poll(SLICE_MS):
                if time.monotonic() >= until_s or (
                    batch and all(one.cancellation.cancelled for one in batch)
                ):
                    self._drop()
                    if endpoint == "ping":
                        raise ServerError(f"{self._url}: no answer")
                    raise TimeoutError(f"{self._url} did not answer in time")
            answer, _ = unpack(self._socket.recv())
        except (zmq.ZMQError, WireError) as error:
            self._drop()
            raise ServerError(f"{self._url}: {error}") from error
        if isinstance(answer, dict) and "error" in answer:
            raise ServerError(f"{self._url}: {last_line(str(answer['error']))}")
        return answer

    def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close(0)


def _named(kind: str, name: str) -> str:
    return name if name.startswith(f"{kind}.") else f"{kind}.{name}"


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {VIDEO: {}, STATE: {}, "language": {}}
    for name, value in flat.items():
        kind, _, rest = name.partition(".")
        if kind in (VIDEO, STATE):
            nested[kind][rest] = value
        else:
            nested["language"][name] = value
    return nested
