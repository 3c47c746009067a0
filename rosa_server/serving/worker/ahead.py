"""Takes the next message while the model runs, and has it prepared, so that its pictures are arrays when it is due.

ZeroMQ's sockets belong to one thread at a time. `beside` lends them to a separate thread for as long as the model
runs: it takes one message at most, and whoever gets the sockets back has not waited for its pictures.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Semaphore, Thread
from typing import Generic, TypeVar

import zmq

from rosa_server.serving.base.readiness import Source

Message = TypeVar("Message")
Prepared = TypeVar("Prepared")
Come = Sequence[Source]  # what is readable


class Ahead(Generic[Message, Prepared]):
    """One message ahead of the model."""

    def __init__(
        self,
        sources: Sequence[Source],
        read: Callable[[Come], Message | None],
        prepare: Callable[[Message], Prepared],
    ) -> None:
        """`read`: takes one message of the sources that are readable. `prepare`: what may take longer."""
        self._read, self._prepare = read, prepare
        self._woken, self._wake = os.pipe()
        self._poller = zmq.Poller()
        for source in (*sources, self._woken):
            self._poller.register(source, zmq.POLLIN)
        self._lent, self._given_back = Semaphore(0), Semaphore(0)
        self._next: Future[Prepared] | None = None
        self._thread: Thread | None = None
        self._ended = False

    @contextmanager
    def beside(self) -> Iterator[None]:
        """The sources are read meanwhile, and by nobody else."""
        if self._thread is None:  # of a worker that never needs it there is none
            self._thread = Thread(target=self._loop, name="ahead", daemon=True)
            self._thread.start()
        self._lent.release()
        try:
            yield
        finally:
            os.write(self._wake, b"1")
            self._given_back.acquire()
            os.read(self._woken, 1)

    def taken(self) -> Prepared | None:
        """The message that came meanwhile, when it is prepared; None without one. Raises what reading it raised."""
        future, self._next = self._next, None
        return None if future is None else future.result()

    def close(self) -> None:
        """End the thread. Not within `beside`."""
        self._ended = True
        if self._thread is not None:
            self._lent.release()
            self._thread.join()
            self._thread = None
        if self._wake >= 0:
            os.close(self._wake)
            os.close(self._woken)
            self._wake = self._woken = -1

    def _loop(self) -> None:
        while True:
            self._lent.acquire()
            if self._ended:
                return
            message: Message | None = None
            failed: BaseException | None = None
            try:
                come = [source for source, _ in self._poller.poll() if source != self._woken]
                message = self._read(come) if come else None
            except BaseException as error:  # as where the main thread reads: it ends the worker
                failed = error
            future: Future[Prepared] | None = None
            if message is not None or failed is not None:
                self._next = future = Future()
            self._given_back.release()
            if future is None:
                continue
            try:
                if failed is not None or message is None:
                    raise failed or RuntimeError("nothing was read")
                future.set_result(self._prepare(message))
            except BaseException as error:
                future.set_exception(error)
