"""One worker and whatever its model does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import zmq

from rosa_contract import codec
from rosa_contract import messages as m
from rosa_contract.horizon import Horizon
from rosa_contract.overlap import Overlap
from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput
from rosa_server.models.horizon import POLICIES, Choice
from rosa_server.serving.worker import ContinuousWorker, Worker, WorkerSpec
from tests.unit.server.serving.core.stage import IMAGES, STATE, request


@contextmanager
def wired(frames: list[Any]) -> Iterator[tuple[Worker, zmq.Socket[bytes]]]:
    """A worker with one message waiting for it, and the gateway's end of its socket."""
    with zmq.Context() as context, context.socket(zmq.PAIR) as gateway, context.socket(zmq.PAIR) as socket:
        gateway.bind("inproc://worker")
        socket.connect("inproc://worker")
        gateway.send_multipart(frames)
        yield Worker(WorkerSpec("w1", "policy", "moody", "inproc://worker"), Moody(), socket), gateway


class Moody:
    """A model whose prompt says what goes wrong."""

    input_spec = InputSpec(IMAGES, STATE)
    max_batch = 4
    memory_mb = 0.0

    def load(self) -> None: ...

    def warm_up(self) -> None: ...

    def close(self) -> None: ...

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        if any(one.prompt == "raise" for one in batch):
            raise RuntimeError("out of memory")
        if any(one.prompt == "misfit" for one in batch):
            raise ValueError("state is out of range")
        if any(one.prompt == "too few" for one in batch):
            return []
        actions = {True: np.full((2, 2), np.nan, np.float32), False: np.ones((2, 2), np.float32)}
        updates = np.array([[[1.0], [1.0]], [[0.5], [2.0]]])
        timed = {"step_s": np.array([0.05], np.float32)}
        return [
            ModelOutput(
                {"actions": actions[one.prompt == "nan"], **(timed if one.prompt == "timed" else {})},
                updates=updates,
            )
            for one in batch
        ]


def run(*prompts: str, spoil: bool = False, **asked: Any) -> m.Executed:
    frames = [codec.encode(request(index, prompt=prompt, **asked)) for index, prompt in enumerate(prompts)]
    if spoil:
        frames[0][0] = frames[0][0][:-3]
    execute = m.Execute(5, list(range(len(prompts))), frames)
    with wired(codec.encode(execute)) as (worker, gateway):
        worker.step()
        done = codec.decode(gateway.recv_multipart(zmq.NOBLOCK))
    assert isinstance(done, m.Executed)
    assert (done.batch_id, done.tickets) == (5, list(range(len(prompts))))
    return done


def causes(done: m.Executed) -> list[str]:
    return [cause or "ok" for cause, _ in done.errors]


def test_a_batch_is_answered_in_order_with_encoded_outputs() -> None:
    done = run("", "")
    assert causes(done) == ["ok", "ok"]
    assert codec.decode_output(done.outputs[1]).arrays["actions"].tolist() == [[1, 1], [1, 1]]


def test_the_horizon_that_the_request_asks_for_comes_with_its_reason() -> None:
    [frame] = run("", horizon=Horizon("threshold", t=0.4)).outputs
    answered = codec.decode_output(frame)
    assert (answered.horizon, answered.arrays["actions"].shape) == (1, (2, 2))
    assert "step 2's last update is 2.00 times" in answered.horizon_reason
    [frame] = run("").outputs
    assert codec.decode_output(frame).horizon == 0


def test_what_a_model_does_not_inpaint_is_blended_and_the_horizon_counts_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overlap = Overlap(np.full((1, 2), 5.0, np.float32), 1, 0.05)
    [frame] = run("", overlap=overlap, horizon=Horizon("static", steps=2)).outputs
    answered = codec.decode_output(frame)
    assert answered.arrays["actions"].tolist() == [[5, 5], [1, 1]]
    assert answered.horizon == 1, "one of two steps is frozen"
    monkeypatch.setattr(Moody, "inpaints", True, raising=False)
    [frame] = run("", overlap=overlap).outputs
    assert codec.decode_output(frame).arrays["actions"].tolist() == [[1, 1], [1, 1]]


def test_an_overlap_of_another_robot_fails_its_request() -> None:
    assert causes(run("", overlap=Overlap(np.zeros((1, 3), np.float32), 1, 0.05))) == ["input_rejected"]


def test_a_policy_that_the_worker_does_not_know_fails_the_request() -> None:
    done = run("", horizon=Horizon("treshold"))
    assert causes(done) == ["input_rejected"]
    assert "did you mean 'threshold'" in done.errors[0][1]


def test_one_request_that_cannot_be_finished_costs_the_others_of_its_batch_no_second_inference() -> None:
    sound, unknown = request(0), request(1, horizon=Horizon("treshold"))
    asked: list[int] = []
    execute = m.Execute(5, [0, 1], [codec.encode(sound), codec.encode(unknown)])
    with wired(codec.encode(execute)) as (worker, gateway), pytest.MonkeyPatch.context() as patch:
        infer = Moody.infer
        patch.setattr(Moody, "infer", lambda self, batch: asked.append(len(batch)) or infer(self, batch))
        worker.step()
        done = codec.decode(gateway.recv_multipart(zmq.NOBLOCK))
    assert isinstance(done, m.Executed)
    assert causes(done) == ["ok", "input_rejected"]
    assert asked == [2]


def test_an_overlap_with_other_steps_in_time_than_the_answers_fails_its_request() -> None:
    """Row by row they would be joined although they are about different moments."""
    overlap = Overlap(np.zeros((1, 2), np.float32), 1, 0.05)
    assert causes(run("timed", overlap=overlap)) == ["ok"]
    done = run("timed", overlap=Overlap(overlap.actions, 1, 0.1))
    assert causes(done) == ["input_rejected"]
    assert "0.1 s" in done.errors[0][1] and "0.05 s" in done.errors[0][1]


def test_a_long_reason_of_a_policy_is_cut_and_its_answer_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "wordy", lambda spec, chunk: Choice(1, "because " * 100))
    [frame] = run("", horizon=Horizon("wordy")).outputs
    answered = codec.decode_output(frame)
    assert answered.horizon == 1
    assert answered.horizon_reason.startswith("because because")


def test_nan_from_the_model_fails_its_own_request_only() -> None:
    done = run("", "nan", "")
    assert causes(done) == ["ok", "bad_output", "ok"]


def test_an_exception_fails_the_request_that_causes_it_and_no_other() -> None:
    done = run("", "raise", "misfit", "")
    assert causes(done) == ["ok", "model_error", "input_rejected", "ok"]
    assert "out of memory" in done.errors[1][1]


def test_a_model_that_answers_too_little_fails() -> None:
    assert causes(run("too few")) == ["model_error"]


def test_a_request_that_does_not_decode_is_invalid_and_the_others_run() -> None:
    assert causes(run("", "", spoil=True)) == ["not_msgpack", "ok"]


def test_the_model_is_told_whose_request_it_is_and_when_it_is_due() -> None:
    class Listening(Moody):
        def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
            seen.extend(batch)
            raise TimeoutError("its deadline comes before an answer could")

    seen: list[ModelInput] = []
    senders = [m.Sender("panda0", 250.0, 40.0, "4:17")]
    before_s = time.monotonic()
    with wired(codec.encode(m.Execute(5, [0], [codec.encode(request(0))], senders))) as (worker, gateway):
        worker._backend = Listening()
        worker.step()
        after_s = time.monotonic()
        done = codec.decode(gateway.recv_multipart(zmq.NOBLOCK))
    assert isinstance(done, m.Executed) and causes(done) == ["budget_spent"]
    assert (seen[0].robot, seen[0].waited_s, seen[0].observation) == ("panda0", 0.04, "4:17")
    assert before_s + 0.25 <= seen[0].deadline_s <= after_s + 0.25


def test_drain_stops_the_loop() -> None:
    with wired(codec.encode(m.Drain())) as (worker, _):
        worker.run()
        assert worker.stopping


@contextmanager
def continuous(backend: Any, at_once: int) -> Iterator[tuple[ContinuousWorker, zmq.Socket[bytes]]]:
    """A worker that runs several calls at a time, and the gateway's end of its socket."""
    with zmq.Context() as context, context.socket(zmq.PAIR) as gateway, context.socket(zmq.PAIR) as socket:
        gateway.bind("inproc://worker")
        socket.connect("inproc://worker")
        worker = ContinuousWorker(WorkerSpec("w1", "policy", "", "inproc://worker"), backend, socket, at_once)
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

    at_once = 3

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


def step_until(worker: Worker, until_s: float) -> None:
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
