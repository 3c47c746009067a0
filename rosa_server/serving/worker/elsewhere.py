"""A model in a separate worker process, as a backend: how commands use a model that has another Python."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import zmq

from rosa_contract.config.models import Model
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import encode_image
from rosa_server.models import registry
from rosa_server.models.adapters import behind
from rosa_server.models.adapters.resolving import Resolved, from_data, resolve
from rosa_server.models.backend import Backend, InputSpec, ModelInput, ModelOutput
from rosa_server.serving.base.release import release
from rosa_server.serving.base.worker_spec import MISCONFIGURED, WorkerSpec

DESCRIBE_S = 120.0  # importing torch from a cold disk takes a while
LOAD_S = 1800.0  # of a large model
ANSWER_S = 300.0


def backend_of(name: str, model: Model, **options: Any) -> Backend:
    """The backend of an entry of `models`, behind its adapter, in whichever Python it has. `options` are added."""
    given = {**registry.with_engine(model.options), **options}
    adapter = resolve(model.adapter).to_data() if model.adapter is not None else {}
    if not model.python:
        return behind(registry.create(model.backend, **given), adapter)
    spec = WorkerSpec(
        f"{name}/0.1",
        name,
        model.backend,
        "",
        model.max_batch,
        given,
        dict(model.sha256),
        python=model.python,
        release=release(),
        adapter=adapter,
    )
    return cast(Backend, Elsewhere(spec))


class Elsewhere:
    """Starts the worker when it is loaded; a batch goes there and back. Not for serving: one batch at a time."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._ready: m.WorkerReady | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = contextlib.ExitStack()
        self._batches = 0
        self.memory_mb = 0.0

    @property
    def resolved(self) -> Resolved | None:
        """The adapter in front of it; None: it has none."""
        return from_data(self._spec.adapter) if self._spec.adapter else None

    @contextlib.contextmanager
    def otherwise(self, resolved: Resolved) -> Iterator[Elsewhere]:
        """The same model behind another adapter, in a worker that is started for it. Raises as `load`."""
        other = Elsewhere(replace(self._spec, adapter=resolved.to_data()))
        try:
            other.load()
            yield other
        finally:
            other.close()

    @property
    def input_spec(self) -> InputSpec:
        """Raises `BackendError` where the worker cannot say."""
        if self._ready is None:
            return self._described
        ready = self._ready
        unused = None if ready.unused is None else frozenset(ready.unused)
        return InputSpec(ready.images, ready.state, frozenset(ready.resizes), unused, ready.actions)

    @property
    def max_batch(self) -> int:
        return self._ready.max_batch if self._ready is not None else 1

    @cached_property
    def _described(self) -> InputSpec:
        spec = replace(self._spec, parent_pid=os.getpid())
        try:
            done = subprocess.run(
                spec.command("--describe"),
                env=spec.environment(os.environ),
                capture_output=True,
                text=True,
                timeout=DESCRIBE_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise registry.BackendError("not_importable", f"{spec.python}: {error}") from None
        if done.returncode != 0:
            words = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
            raise registry.BackendError("not_importable", words[0])
        told = json.loads(done.stdout.splitlines()[-1])
        images = {camera: (size[0], size[1]) for camera, size in told["images"].items()}
        unused = None if told["unused"] is None else frozenset(told["unused"])
        return InputSpec(images, told["state"], frozenset(told["resizes"]), unused, told["actions"])

    def load(self) -> None:
        """Start the worker and wait until it is warm. Raises `BackendError` when it ends before."""
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="rosa-")))
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._stack.callback(context.term)
        self._socket = self._stack.enter_context(context.socket(zmq.ROUTER))
        self._socket.setsockopt(zmq.LINGER, 0)
        endpoint = f"ipc://{folder / 'worker'}"
        self._socket.bind(endpoint)
        spec = replace(self._spec, endpoint=endpoint, parent_pid=os.getpid())
        self._process = subprocess.Popen(
            spec.command(), env=spec.environment(os.environ), stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        self._stack.callback(self._end)
        ready = self._receive(LOAD_S)
        if not isinstance(ready, m.WorkerReady):
            raise registry.BackendError("not_a_backend", f"its worker said {type(ready).__name__} first")
        self._ready = ready

    def warm_up(self) -> None:
        """The worker has done it."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """Raises `ValueError` for an input that the model refuses, `RuntimeError` for any other failure."""
        self._batches += 1
        tickets = list(range(len(batch)))
        frames = [codec.encode(_request(ticket, one)) for ticket, one in zip(tickets, batch, strict=True)]
        senders = [
            m.Sender(one.robot or "robot", ANSWER_S * 1000, one.waited_s * 1000, one.observation)
            for one in batch
        ]
        execute = m.Execute(self._batches, tickets, frames, senders)
        self._socket.send_multipart([self._spec.worker_id.encode(), *codec.encode(execute)])
        done = self._receive(ANSWER_S)
        while isinstance(done, m.Executed) and done.batch_id != self._batches:  # of one that nobody waits for
            done = self._receive(ANSWER_S)
        if not isinstance(done, m.Executed):
            raise RuntimeError(f"its worker said {type(done).__name__}")
        return [_output(error, frame) for error, frame in zip(done.errors, done.outputs, strict=True)]

    def close(self) -> None:
        self._stack.close()

    def _receive(self, timeout_s: float) -> m.Message:
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s:
            if self._socket.poll(200):
                return codec.decode(self._socket.recv_multipart()[1:])
            assert self._process is not None
            if (status := self._process.poll()) is not None:
                cause = "bad_options" if status == MISCONFIGURED else "not_a_backend"
                raise registry.BackendError(
                    cause, f"its worker ended with status {status}; it said why above"
                )
        raise TimeoutError(f"its worker said nothing for {timeout_s:g} s")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _request(number: int, one: ModelInput) -> m.Request:
    images = {camera: encode_image(picture, "rgb8") for camera, picture in one.images.items()}
    return m.Request(
        number,
        one.component,
        ANSWER_S * 1000,
        one.prompt,
        dict(one.state),
        images,
        one.horizon,
        None,
        one.overlap,
    )


def _output(error: tuple[str, str], frame: Any) -> ModelOutput:
    cause, reason = error
    if cause:
        raise (ValueError if m.CAUSES[cause] == m.INVALID else RuntimeError)(f"{cause}: {reason}")
    output = codec.decode_output(frame)
    return ModelOutput(output.arrays, output.verdict, output.text)
