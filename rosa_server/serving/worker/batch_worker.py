"""The work of a worker process: take a batch from the gateway, decode it, infer, reply."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import decode_image
from rosa_server.models.backend import Backend, ModelInput, Prepares, capabilities_of
from rosa_server.models.cancellation import Cancellation
from rosa_server.models.stacking import Place, nowhere
from rosa_server.serving.base import log
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.core.failures import Failures
from rosa_server.serving.worker.ahead import Ahead, Come
from rosa_server.serving.worker.answers import (
    CANCELLED,
    Answer,
    Outcome,
    Refusal,
    encoded,
    failure,
    finished,
    short,
    trace,
)
from rosa_server.serving.worker.counts import Counts
from rosa_server.serving.worker.gateway_end import GatewayEnd, Message
from rosa_server.serving.worker.rows import Rows
from rosa_server.timing.decoding import MAX_THREADS, MIN_DECODE_MS, MIN_RUN_MS, MIN_SHARED_MS

POLL_MS = 500
ORPHAN_S = 15.0  # without its gateway: it has been given up by then (core/absence.py), and another one holds its place
# A batch, its time in ms, the outcome of each request, and the CPU time in ms of decoding each.
Done = tuple[m.Execute, float, Sequence[Outcome], Sequence[float]]
NOBODY = m.Sender("", 0.0, 0.0)  # a gateway that does not say who asks
LATE: Refusal = ("budget_spent", "its budget was spent at the worker")


@dataclass(frozen=True)
class Decoded:
    """A batch that the model can run: an input for each request, or why there is none."""

    batch: m.Execute
    inputs: Sequence[ModelInput | Refusal]
    decode_ms: Sequence[float]  # of CPU time, by request


class Batches:
    """What a worker does with a batch: decode it, have the model run it, and notice a model that is broken."""

    def __init__(self, spec: WorkerSpec, backend: Backend) -> None:
        self._spec, self._backend = spec, backend
        self._decoders = ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1), "decode")
        self._decode_ms = 0.0  # of a request, in the last batch
        self._seldom = log.Seldom()
        self._able = capabilities_of(backend)
        self._counts = Counts(self._able.counts, spec.worker_id)
        self._needs = backend.input_spec
        self._rows = Rows(min(backend.max_batch, spec.max_batch or backend.max_batch))
        self._prepares = backend if isinstance(backend, Prepares) else None
        self._failures, self._judging = Failures(), Lock()
        self._answered: ModelInput | None = None  # the first request that was: the model is tested with it
        self.broken = ""  # why this process has to end: its model answers nothing any more
        self.at_once = 1

    def close(self) -> None:
        """End the threads."""
        self._decoders.shutdown()

    def ready(self) -> m.WorkerReady:
        """What the model takes, and how much at once."""
        needs = self._needs
        limit = min(self._backend.max_batch, self._spec.max_batch or self._backend.max_batch)
        images = {camera: (size[0], size[1]) for camera, size in needs.images.items()}
        names = (self._spec.worker_id, self._spec.model)
        unused = None if needs.unused is None else sorted(needs.unused)
        return m.WorkerReady(
            *names,
            limit,
            images,
            dict(needs.state),
            self.at_once,
            self._able.shares,
            sorted(needs.resizes),
            unused,
            needs.actions,
            self._spec.epoch,
            sorted(self._able.batch_sizes),
        )

    def _decoded(self, batch: m.Execute, cancellations: Sequence[Cancellation] = ()) -> Decoded:
        """`cancellations`: of each request; none where nothing is ever cancelled."""
        now_s = time.monotonic()
        senders: Sequence[m.Sender | None] = batch.senders or [None] * len(batch.frames)
        cancellations = cancellations or [Cancellation() for _ in batch.frames]

        # Batches that run beside each other have their pictures in arrays of their own.
        places = self._rows.next() if self.at_once == 1 else lambda number: nowhere
        count = len(batch.frames)
        asked = (batch.frames, senders, cancellations, [now_s] * count, [places(n) for n in range(count)])
        shared = count > 1 and self._decode_ms >= MIN_SHARED_MS
        both = list((self._decoders.map if shared else map)(self._decode, *asked))
        decode_ms = [ms for _, ms in both]
        self._decode_ms = sum(decode_ms) / max(1, len(decode_ms))
        return Decoded(batch, [known for known, _ in both], decode_ms)

    def _execute(self, decoded: Decoded) -> Done:
        """Run a batch. A request whose time is over by now is answered so, and does not reach the model."""
        now_s = time.monotonic()
        inputs = [
            LATE if isinstance(one, ModelInput) and one.deadline_s <= now_s else one for one in decoded.inputs
        ]
        started_s = time.perf_counter()
        outcomes = self._infer(inputs)
        if (
            self._answered is None
        ):  # a copy, made before the reply: then the gateway may overwrite the pictures
            self._answered = next((_kept(one) for one, _ in _ran(inputs, outcomes, bytes)), None)
        return decoded.batch, (time.perf_counter() - started_s) * 1000, outcomes, decoded.decode_ms

    def _decode(
        self,
        frames: Sequence[Any],
        sender: m.Sender | None,
        cancellation: Cancellation,
        now_s: float,
        place: Place,
    ) -> tuple[ModelInput | Refusal, float]:
        """A request with the cameras that the model needs and no others, or (cause, reason) why it is invalid; and the
        CPU time in ms that its pictures took. Raw ones that nobody resizes take none, and reading the clock would take
        longer.
        """
        if cancellation.cancelled:
            return CANCELLED, 0.0
        began_s: float | None = None
        known: ModelInput | Refusal
        try:
            request = codec.decode(frames)
            if not isinstance(request, m.Request):
                raise CodecError("unexpected_message", f"expected a request, got {type(request).__name__}")
            if self._prepares is not None or any(
                image.encoding != "rgb8" for image in request.images.values()
            ):
                began_s = time.thread_time()
            known = self._known(request, sender, cancellation, now_s, place)
        except CodecError as error:
            robot = sender.robot_id if sender is not None else ""
            if self._seldom.due(robot):
                names = {"worker": self._spec.worker_id, "robot": robot, "cause": error.cause}
                log.warning("request_refused", **names, reason=str(error))
            known = error.cause, str(error)
        return known, 0.0 if began_s is None else (time.thread_time() - began_s) * 1000

    def _known(
        self,
        request: m.Request,
        sender: m.Sender | None,
        cancellation: Cancellation,
        now_s: float,
        place: Place,
    ) -> ModelInput | Refusal:
        images = {}
        for camera, size in self._needs.images.items():
            if camera not in request.images:
                words = f"camera {camera!r} is missing; got {', '.join(request.images) or 'none'}"
                return "camera_missing", words
            image = request.images[camera]
            # What is prepared gets its place then, and raw ones stay where they are.
            placed = self._prepares is None and image.encoding != "rgb8" and camera not in self._needs.resizes
            images[camera] = decode_image(image, place(camera, (*size, 3)) if placed else None)
            if camera not in self._needs.resizes and images[camera].shape[:2] != tuple(size):
                words = f"camera {camera!r}: expected {tuple(size)}, got {images[camera].shape[:2]}"
                return "wrong_image_shape", words
        who = NOBODY if sender is None else sender
        known = ModelInput(
            request.component,
            request.prompt,
            images,
            request.state,
            robot=who.robot_id,
            deadline_s=math.inf if sender is None else now_s + sender.budget_ms / 1000,
            waited_s=who.waited_ms / 1000,
            observation=who.observation,
            horizon=request.horizon,
            overlap=request.overlap,
            cancellation=cancellation,
        )
        return known if self._prepares is None else self._prepares.prepare_ahead(known, place)

    def _infer(self, decoded: Sequence[ModelInput | tuple[str, str]]) -> list[Outcome]:
        """One outcome per request. A bad request fails alone: a failed batch is run again, one request at a time."""
        inputs = [one for one in decoded if isinstance(one, ModelInput)]
        answered: Iterator[Answer]
        try:
            answered = iter(self._run(inputs) if inputs else [])
        except Exception as error:  # a model may raise anything; the worker goes on and answers every request
            known = all(one.cancellation.cancelled for one in inputs)
            if not known and self._seldom.due(type(error).__name__):
                names = {"worker": self._spec.worker_id, "size": len(inputs), "error": short(error)}
                log.warning("batch_failed", **names, traceback=trace(error))
            alone = len(inputs) == 1
            answered = iter([failure(error, inputs[0])] if alone else [self._alone(one) for one in inputs])
        outcomes = [encoded(next(answered)) if isinstance(one, ModelInput) else one for one in decoded]
        for one in outcomes:
            if isinstance(one, tuple) and one[0] == "bad_output" and self._seldom.due("bad_output"):
                names = {"worker": self._spec.worker_id, "model": self._spec.model}
                log.warning("bad_output", **names, reason=one[1])
        return outcomes

    def _judge(self, decoded: Sequence[ModelInput | tuple[str, str]], outcomes: Sequence[Outcome]) -> None:
        """Notice a model that fails at everything: after a fault of its GPU it would do so for ever."""
        with self._judging:
            for out in outcomes:
                if isinstance(out, bytes):
                    self._failures.answered()
                    return
            ran = _ran(decoded, outcomes, tuple)
            faults = [one.robot for one, out in ran if out[0] in ("model_error", "bad_output")]
            if faults and self._failures.failed(faults):
                self._test()

    def _test(self) -> None:
        """Ask the model what it has answered before; where it never has, have it warm up once more."""
        error: Exception | None = None
        try:
            if self._answered is None:
                self._backend.warm_up()
            elif isinstance(outcome := encoded(self._run([self._answered])[0]), tuple):
                error = RuntimeError(outcome[1])
        except Exception as raised:
            error = raised
        if self._failures.broken(error is None, self._answered is not None):
            words = f"it failed {self._failures.batches} batches in a row"
            self.broken = words + (
                f", and then a request that it had answered: {short(error)}" if error else ""
            )
            lines = trace(error) if error is not None else ""
            names = {"worker": self._spec.worker_id, "model": self._spec.model}
            log.error("model_broken", **names, reason=self.broken, traceback=lines)

    def _run(self, inputs: list[ModelInput]) -> list[Answer]:
        outputs = self._backend.infer(inputs)
        if len(outputs) != len(inputs):
            raise RuntimeError(f"the backend answered {len(outputs)} outputs for {len(inputs)} inputs")
        return [
            finished(one, output, self._able.inpaints) for one, output in zip(inputs, outputs, strict=True)
        ]

    def _alone(self, one: ModelInput) -> Answer:
        try:
            return self._run([one])[0]
        except Exception as error:
            return failure(error, one)

    def _executed(self, done: Done) -> m.Executed:
        batch, inference_ms, outcomes, decode_ms = done
        errors = [("", "") if isinstance(one, bytes) else one for one in outcomes]
        frames = [one if isinstance(one, bytes) else b"" for one in outcomes]
        counts, epoch = self._counts.read(), self._spec.epoch
        told = (batch.batch_id, batch.tickets, inference_ms, errors, frames)
        return m.Executed(*told, counts, decode_ms, epoch)


class BatchWorker(Batches):
    """Runs whole batches, one after another, until it is told to drain."""

    def __init__(self, spec: WorkerSpec, backend: Backend, end: GatewayEnd) -> None:
        super().__init__(spec, backend)
        self._end = end
        self._ahead: Ahead[Message, Message | Decoded] = Ahead(end.sources, end.read, self._prepared)
        self._worth_it = False  # to read ahead: the last batch says
        self.stopping = False

    def close(self) -> None:
        """End the threads."""
        self._ahead.close()
        super().close()

    def announce(self) -> None:
        """Tell the gateway that the model is warm."""
        self._end.send(codec.encode(self.ready()))

    def run(self) -> None:
        while not self.stopping and not self.broken:
            self.step()

    def step(self) -> None:
        """Take one batch, decode it, infer, reply. Returns after a while when none comes.

        The next one is taken and decoded while the model runs this one.
        """
        one = self._ahead.taken()
        if one is None and (message := self._take()) is not None:
            one = self._prepared(message)
        if isinstance(one, m.Drain):
            self.stopping = True
        elif isinstance(one, Decoded):
            if self._worth_it:
                with self._ahead.beside():
                    done = self._execute(one)
                self._end.given_back()
            else:
                done = self._execute(one)
            self._worth_it = done[1] >= MIN_RUN_MS and sum(one.decode_ms) >= MIN_DECODE_MS
            self._reply(done)
            self._judge(one.inputs, done[2])  # its robots do not wait for this

    def _prepared(self, message: Message) -> Message | Decoded:
        return self._decoded(message) if isinstance(message, m.Execute) else message

    def _take(self) -> Message | None:
        come: Come = self._end.wait(POLL_MS)
        if (link := self._end.link) is not None:
            if link.came_up():
                self.announce()
            if link.down_s() > ORPHAN_S:
                log.error("worker_orphaned", worker=self._spec.worker_id, seconds=ORPHAN_S)
                return m.Drain()
            come = [one for one in come if one is not link.monitor]
        return self._end.read(come) if come else None

    def _reply(self, done: Done) -> None:
        self._end.answer(codec.encode(self._executed(done)))


def _ran(
    decoded: Sequence[ModelInput | Refusal], outcomes: Sequence[Outcome], kind: type
) -> Iterator[tuple[ModelInput, Any]]:
    """The requests that reached the model and have an outcome of this kind, each with it."""
    return (
        (one, out)
        for one, out in zip(decoded, outcomes, strict=True)
        if isinstance(one, ModelInput) and isinstance(out, kind)
    )


def _kept(one: ModelInput) -> ModelInput:
    """A copy that outlives its batch, of nobody: nothing expires, is joined or is shared with a robot's requests."""
    return ModelInput(
        one.component,
        one.prompt,
        {camera: np.array(picture) for camera, picture in one.images.items()},
        {name: np.array(values) for name, values in one.state.items()},
    )
