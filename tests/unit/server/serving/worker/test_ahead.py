"""The next batch is taken and decoded while the model runs: what that may not change, and what it must."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
import zmq

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.worker import batch_worker
from rosa_server.serving.worker.batch_worker import BatchWorker
from rosa_server.serving.worker.gateway_end import GatewayEnd
from tests.unit.server.serving.core.stage import request
from tests.unit.server.serving.moody import Moody, causes

LIMIT_S = 30.0


class Held(Moody):
    """A model that runs until it is let go, each time."""

    def __init__(self) -> None:
        super().__init__()
        self.runs, self.go = Event(), Event()
        self.asked: list[str] = []

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        self.asked += [one.prompt for one in batch]
        self.runs.set()
        assert self.go.wait(LIMIT_S)
        self.go.clear()
        return super().infer(batch)


class Stage:
    """A worker in a thread of its own, and the gateway's end."""

    def __init__(self, worker: BatchWorker, backend: Held, gateway: zmq.Socket[bytes]) -> None:
        self.worker, self.backend, self.gateway = worker, backend, gateway
        self.raised: list[BaseException] = []
        self.thread = Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.raised.append(error)

    def send(self, batch_id: int, prompt: str, **sender: Any) -> None:
        told = [m.Sender("robot", **sender)] if sender else []
        execute = m.Execute(batch_id, [batch_id], [codec.encode(request(0, prompt=prompt))], told)
        self.gateway.send_multipart(codec.encode(execute))

    def answer(self) -> m.Executed:
        assert self.gateway.poll(LIMIT_S * 1000)
        done = codec.decode(self.gateway.recv_multipart())
        assert isinstance(done, m.Executed)
        return done

    def let_go(self) -> None:
        assert self.backend.runs.wait(LIMIT_S)
        self.backend.runs.clear()
        self.backend.go.set()


@contextmanager
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Whatever the times of this machine, reading ahead is worth it after the first batch."""
    monkeypatch.setattr(batch_worker, "MIN_RUN_MS", 0.0)
    monkeypatch.setattr(batch_worker, "MIN_DECODE_MS", 0.0)
    with zmq.Context() as context, context.socket(zmq.PAIR) as gateway, context.socket(zmq.PAIR) as socket:
        gateway.bind("inproc://worker")
        socket.connect("inproc://worker")
        backend = Held()
        made = Stage(
            BatchWorker(WorkerSpec("w1", "policy", "held", "inproc://worker"), backend, GatewayEnd(socket)),
            backend,
            gateway,
        )
        made.thread.start()
        try:
            made.send(1, "first")
            made.let_go()
            made.answer()
            yield made
        finally:
            made.worker.stopping = True
            backend.go.set()
            made.thread.join(LIMIT_S)
            made.worker.close()
        assert not made.thread.is_alive()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> dict[str, Event]:
    """Set when the batch with this prompt has been decoded."""
    events = {prompt: Event() for prompt in ("second", "third")}
    plain = BatchWorker._decode

    def decode(self: BatchWorker, *given: Any) -> Any:
        known, ms = plain(self, *given)
        if isinstance(known, ModelInput) and known.prompt in events:
            events[known.prompt].set()
        return known, ms

    monkeypatch.setattr(BatchWorker, "_decode", decode)
    return events


def test_the_next_batch_is_decoded_while_the_model_runs_this_one(
    monkeypatch: pytest.MonkeyPatch, decoded: dict[str, Event]
) -> None:
    with stage(monkeypatch) as here:
        here.send(2, "second")
        assert here.backend.runs.wait(LIMIT_S)
        here.send(3, "third")
        assert decoded["third"].wait(LIMIT_S), "the model has not been let go"
        assert here.backend.asked == ["first", "second"], "one batch at a time"
        here.let_go()
        assert here.answer().batch_id == 2
        here.let_go()
        assert here.answer().batch_id == 3
        assert here.backend.asked == ["first", "second", "third"]


def test_no_more_than_one_batch_is_held_ahead(
    monkeypatch: pytest.MonkeyPatch, decoded: dict[str, Event]
) -> None:
    with stage(monkeypatch) as here:
        here.send(2, "")
        assert here.backend.runs.wait(LIMIT_S)
        here.send(3, "second")
        here.send(4, "third")
        assert decoded["second"].wait(LIMIT_S)
        time.sleep(0.05)
        assert not decoded["third"].is_set(), "it stays with its sender until the next one runs"
        for batch_id in (2, 3, 4):
            here.let_go()
            assert here.answer().batch_id == batch_id


def test_an_answer_does_not_wait_for_the_pictures_of_the_next_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on = Event(), Event()
    plain = BatchWorker._decode

    def slow(self: BatchWorker, frames: Sequence[Any], *given: Any) -> Any:
        known, ms = plain(self, frames, *given)
        if isinstance(known, ModelInput) and known.prompt == "slow":
            begun.set()
            assert go_on.wait(LIMIT_S)
        return known, ms

    monkeypatch.setattr(BatchWorker, "_decode", slow)
    with stage(monkeypatch) as here:
        here.send(2, "")
        assert here.backend.runs.wait(LIMIT_S)
        here.send(3, "slow")
        assert begun.wait(LIMIT_S)
        here.let_go()
        assert here.answer().batch_id == 2, "the other one still decodes"
        go_on.set()
        here.let_go()
        assert here.answer().batch_id == 3


def test_what_is_too_late_when_its_turn_comes_is_answered_and_does_not_reach_the_model(
    monkeypatch: pytest.MonkeyPatch, decoded: dict[str, Event]
) -> None:
    with stage(monkeypatch) as here:
        here.send(2, "")
        assert here.backend.runs.wait(LIMIT_S)
        here.send(3, "second", budget_ms=1.0, waited_ms=0.0)
        assert decoded["second"].wait(LIMIT_S)
        time.sleep(0.005)  # more than its budget
        here.let_go()
        assert here.answer().batch_id == 2
        late = here.answer()
        assert (late.batch_id, [cause for cause, _ in late.errors]) == (3, ["budget_spent"])
        assert "second" not in here.backend.asked


def test_a_worker_that_is_drained_meanwhile_answers_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage(monkeypatch) as here:
        here.send(2, "")
        assert here.backend.runs.wait(LIMIT_S)
        here.gateway.send_multipart(codec.encode(m.Drain()))
        here.let_go()
        assert causes(here.answer()) == ["ok"]
        here.thread.join(LIMIT_S)
        assert not here.thread.is_alive() and here.worker.stopping


def test_what_cannot_be_read_ends_the_worker_as_it_does_between_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with stage(monkeypatch) as here:
        here.send(2, "")
        assert here.backend.runs.wait(LIMIT_S)
        here.gateway.send_multipart([b"no message"])
        here.let_go()
        assert here.answer().batch_id == 2
        here.thread.join(LIMIT_S)
        assert [type(error) for error in here.raised] == [CodecError]


def test_a_batch_of_large_pictures_is_decoded_by_several_threads_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_worker, "MIN_SHARED_MS", 0.0)
    with stage(monkeypatch) as here:
        prompts = [f"{index}" for index in range(6)]
        frames = [codec.encode(request(index, prompt=prompt)) for index, prompt in enumerate(prompts)]
        frames[2][0] = frames[2][0][:-3]
        here.gateway.send_multipart(codec.encode(m.Execute(2, list(range(6)), frames)))
        here.let_go()
        done = here.answer()
        assert [cause == "" for cause, _ in done.errors] == [True, True, False, True, True, True]
        assert here.backend.asked[1:] == [prompt for prompt in prompts if prompt != "2"]
        assert len(done.decode_ms) == 6
