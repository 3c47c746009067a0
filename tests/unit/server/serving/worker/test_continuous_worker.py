"""A worker that runs several calls at a time: cancelled ones, and threads that end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import zmq

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.models.backend import Capabilities, ModelInput, ModelOutput
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.worker.continuous_worker import ContinuousWorker
from rosa_server.serving.worker.gateway_end import GatewayEnd
from tests.unit.server.serving.core.stage import request
from tests.unit.server.serving.moody import Moody, causes


@contextmanager
def continuous(backend: Any, at_once: int) -> Iterator[tuple[ContinuousWorker, zmq.Socket[bytes]]]:
    """A worker that runs several calls at a time, and the gateway's end of its socket."""
    with zmq.Context() as context, context.socket(zmq.PAIR) as gateway, context.socket(zmq.PAIR) as socket:
        gateway.bind("inproc://worker")
        socket.connect("inproc://worker")
        spec = WorkerSpec("w1", "policy", "", "inproc://worker")
        worker = ContinuousWorker(spec, backend, GatewayEnd(socket), at_once)
        yield worker, gateway
        worker.close()


class Waiting(Moody):
    """Answers only who is told to; says at once when an input is cancelled."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.ends = {"stay": threading.Event(), "go": threading.Event()}

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        [one] = batch
        one.cancellation.when(self.ends[one.prompt].set)
        self.begun.release()
        assert self.ends[one.prompt].wait(10)
        if one.cancellation.cancelled:
            raise RuntimeError("whatever an engine raises")
        return super().infer(batch)


def test_a_running_call_that_is_cancelled_is_answered_so_and_the_others_go_on() -> None:
    backend = Waiting()
    with continuous(backend, 2) as (worker, gateway):
        for ticket, prompt in enumerate(("stay", "go")):
            execute = m.Execute(ticket, [ticket], [codec.encode(request(ticket, prompt=prompt))])
            gateway.send_multipart(codec.encode(execute))
            worker.step()
            assert backend.begun.acquire(timeout=10)
        gateway.send_multipart(codec.encode(m.CancelTickets([1, 99])))
        done = []
        while not done:
            worker.step()
            done += [codec.decode(gateway.recv_multipart())] if gateway.poll(0) else []
        assert [(one.tickets, causes(one)) for one in done] == [([1], ["cancelled"])]
        backend.ends["stay"].set()
        while len(done) < 2:
            worker.step()
            done += [codec.decode(gateway.recv_multipart())] if gateway.poll(0) else []
        assert (done[1].tickets, causes(done[1])) == ([0], ["ok"])


def test_what_is_cancelled_before_it_begins_never_reaches_the_model() -> None:
    backend = Waiting()
    with continuous(backend, 1) as (worker, gateway):
        for ticket, prompt in enumerate(("go", "stay")):  # one thread: the second call waits for it
            execute = m.Execute(ticket, [ticket], [codec.encode(request(ticket, prompt=prompt))])
            gateway.send_multipart(codec.encode(execute))
            worker.step()
        assert backend.begun.acquire(timeout=10)
        gateway.send_multipart(codec.encode(m.CancelTickets([1])))
        worker.step()
        backend.ends["go"].set()
        done = []
        while len(done) < 2:
            worker.step()
            done += [codec.decode(gateway.recv_multipart())] if gateway.poll(0) else []
        assert [causes(one) for one in done] == [["ok"], ["cancelled"]]
        assert not backend.begun.acquire(blocking=False)


class Patient(Moody):
    """Answers nobody before three calls run at the same time."""

    capabilities = Capabilities(at_once=3)

    def __init__(self) -> None:
        self.together = threading.Barrier(3, timeout=10)

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        self.together.wait()
        return super().infer(batch)


class Dying(Moody):
    """What it raises is not the request's fault, and not the model's."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        raise SystemExit("the interpreter ends")


def test_a_call_whose_thread_ends_ends_the_worker_and_leaves_nobody_waiting() -> None:
    with continuous(Dying(), 1) as (worker, gateway):
        gateway.send_multipart(codec.encode(m.Execute(0, [0], [codec.encode(request())])))
        until_s = time.monotonic() + 10
        with pytest.raises(SystemExit, match="the interpreter ends"):
            step_until(worker, until_s)


def step_until(worker: ContinuousWorker, until_s: float) -> None:
    while time.monotonic() < until_s:
        worker.step()


def test_a_model_that_batches_continuously_runs_calls_at_the_same_time() -> None:
    with continuous(Patient(), 3) as (worker, gateway):
        worker.announce()
        for number in range(3):
            execute = m.Execute(number, [number], [codec.encode(request(number))])
            gateway.send_multipart(codec.encode(execute))
        ready = codec.decode(gateway.recv_multipart())
        assert isinstance(ready, m.WorkerReady) and ready.at_once == 3
        done = []
        while len(done) < 3:
            worker.step()
            while gateway.poll(0):
                done.append(codec.decode(gateway.recv_multipart()))
        assert sorted(one.batch_id for one in done if isinstance(one, m.Executed)) == [0, 1, 2]
        assert all(causes(one) == ["ok"] for one in done if isinstance(one, m.Executed))
