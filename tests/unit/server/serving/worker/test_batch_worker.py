"""One worker and whatever its model does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import zmq

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.horizon import Horizon
from rosa_contract.wire.images import EncodedImage, encode_image
from rosa_contract.wire.overlap import Overlap
from rosa_server.models.backend import Capabilities, ModelInput, ModelOutput
from rosa_server.models.horizon import POLICIES, Choice
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.worker.batch_worker import BatchWorker
from rosa_server.serving.worker.gateway_end import GatewayEnd
from tests.unit.server.serving.core.stage import request
from tests.unit.server.serving.moody import Moody, causes


@contextmanager
def wired(frames: list[Any]) -> Iterator[tuple[BatchWorker, zmq.Socket[bytes]]]:
    """A worker with one message waiting for it, and the gateway's end of its socket."""
    with zmq.Context() as context, context.socket(zmq.PAIR) as gateway, context.socket(zmq.PAIR) as socket:
        gateway.bind("inproc://worker")
        socket.connect("inproc://worker")
        gateway.send_multipart(frames)
        spec = WorkerSpec("w1", "policy", "moody", "inproc://worker")
        yield BatchWorker(spec, Moody(), GatewayEnd(socket)), gateway


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


def test_a_batch_is_answered_in_order_with_encoded_outputs() -> None:
    done = run("", "")
    assert causes(done) == ["ok", "ok"]
    assert codec.decode_output(done.outputs[1]).arrays["actions"].tolist() == [[1, 1], [1, 1]]


def test_what_each_picture_took_to_decode_is_told_by_request() -> None:
    done = run("", "", "", images={"front": encode_image(np.zeros((4, 6, 3), np.uint8))})
    assert len(done.decode_ms) == 3 and all(0 < ms < 1000 for ms in done.decode_ms)
    assert run("").decode_ms == [0.0], "a raw one is an array already"
    assert len(run("", spoil=True).decode_ms) == 1, "also of one that cannot be read"


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
    monkeypatch.setattr(Moody, "capabilities", Capabilities(inpaints=True), raising=False)
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


class Watched(Moody):
    """Notes whether a batch had been answered when it was run again, and with which pictures."""

    def __init__(self) -> None:
        self.gateway: zmq.Socket[bytes]
        self.asked: list[tuple[str, int]] = []
        self.breaks = False

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        self.asked += [(one.prompt, int(one.images["front"].max())) for one in batch]
        if self.breaks:
            raise RuntimeError("device-side assert")
        return super().infer(batch)


def test_a_model_is_judged_after_its_answers_have_left_with_pictures_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the answer the gateway may write the next pictures where those of the batch were."""
    backend = Watched()
    buffer = bytearray(EncodedImage("rgb8", 4, 6, bytes([9] * 72)).data)
    shared = {"front": EncodedImage("rgb8", 4, 6, memoryview(buffer))}
    with zmq.Context() as context, context.socket(zmq.PAIR) as gateway, context.socket(zmq.PAIR) as socket:
        gateway.bind("inproc://worker")
        socket.connect("inproc://worker")
        worker = BatchWorker(
            WorkerSpec("w1", "policy", "watched", "inproc://worker"), backend, GatewayEnd(socket)
        )
        answers: list[tuple[str, int]] = []

        def run(number: int) -> None:
            frames = codec.encode(request(number, prompt=f"{number}", images=shared))
            told = [m.Sender(f"robot{number}", 1e6, 0.0, None)]
            batch = m.Execute(number, [number], [frames], told)
            worker._ahead.taken = lambda: worker._prepared(batch)  # type: ignore[method-assign]
            judge = worker._judge

            def judged(*given: Any) -> None:
                done = codec.decode(gateway.recv_multipart(zmq.NOBLOCK))
                assert isinstance(done, m.Executed), "answered before it is judged"
                answers.append((causes(done)[0], len(backend.asked)))
                buffer[:] = bytes([200]) * len(buffer)
                judge(*given)

            monkeypatch.setattr(worker, "_judge", judged)
            worker.step()
            monkeypatch.setattr(worker, "_judge", judge)

        run(0)
        backend.breaks = True
        for number in range(1, 20):
            if worker.broken:
                break
            run(number)
        assert worker.broken
        worker.close()
    assert answers[0] == ("ok", 1)
    assert {cause for cause, _ in answers[1:]} == {"model_error"}
    assert backend.asked[0] == ("0", 9)
    assert backend.asked[-1] == ("0", 9), "tested with what it had answered, as it was"
