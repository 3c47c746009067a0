"""A worker for a model that batches continuously by itself, such as an engine that decodes many sequences at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue

from rosa_contract.wire import messages as m
from rosa_server.models.backend import Backend
from rosa_server.models.cancellation import Cancellation
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.worker.batch_worker import BatchWorker, Done
from rosa_server.serving.worker.gateway_end import GatewayEnd


class ContinuousWorker(BatchWorker):
    """Runs `at_once` batches at a time, each in a thread."""

    def __init__(self, spec: WorkerSpec, backend: Backend, end: GatewayEnd, at_once: int) -> None:
        super().__init__(spec, backend, end)
        self.at_once = at_once
        self._threads = ThreadPoolExecutor(at_once, "call")
        self._done: SimpleQueue[Done | BaseException] = SimpleQueue()
        self._running: dict[int, Cancellation] = {}  # by ticket
        self._woken, self._wake = os.pipe()
        for pipe in (self._woken, self._wake):
            os.set_blocking(pipe, False)
        self._end.watch(self._woken)

    def step(self) -> None:
        """Take a batch or hand back what has been done, whichever comes first."""
        message = self._take()
        if isinstance(message, m.Drain):
            self.stopping = True
        elif isinstance(message, m.CancelTickets):
            for ticket in self._running.keys() & message.tickets:
                self._running[ticket].cancel()
        elif isinstance(message, m.Execute):
            cancellations = [Cancellation() for _ in message.tickets]
            self._running.update(zip(message.tickets, cancellations, strict=True))
            self._threads.submit(self._beside, message, cancellations)
        while not self._done.empty():
            done = self._done.get()
            if isinstance(done, BaseException):
                raise done  # as where the batch runs in this thread: the worker ends, and another one takes its calls
            for ticket in done[0].tickets:
                del self._running[ticket]
            self._reply(done)

    def _take(self) -> m.Execute | m.CancelTickets | m.Drain | None:
        message = super()._take()
        if message is None:
            with suppress(BlockingIOError):  # it was not this that woke it
                os.read(self._woken, self.at_once)
        return message

    def close(self) -> None:
        """Wait for what runs and end the threads."""
        self._threads.shutdown()
        super().close()
        self._end.unwatch(self._woken)
        for pipe in (self._woken, self._wake):
            os.close(pipe)

    def _beside(self, batch: m.Execute, cancellations: Sequence[Cancellation]) -> None:
        """In a separate thread; the sockets belong to the main one."""
        try:
            decoded = self._decoded(batch, cancellations)
            done = self._execute(decoded)
            self._judge(decoded.inputs, done[2])
            self._done.put(done)
        except BaseException as error:
            self._done.put(error)
        with suppress(BlockingIOError):  # as many bytes wait as a pipe holds: it will be woken
            os.write(self._wake, b"1")
