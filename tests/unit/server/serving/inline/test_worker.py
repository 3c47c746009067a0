"""A model in the gateway's thread answers as it would in a worker, and whatever it does, the caller goes on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import encode_image
from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.core.failures import MAX_IN_A_ROW
from rosa_server.serving.inline import worker as inline_worker
from rosa_server.serving.inline.worker import HangAlarm, InlineEnds, InlineWorker
from tests.unit.server.serving.core.stage import request
from tests.unit.server.serving.moody import Moody, causes


class Wild(Moody):
    """What a backend must not do in the gateway's thread, by the prompt."""

    closed = 0
    fails = False

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        prompt = batch[0].prompt
        if self.fails:
            raise RuntimeError("an illegal memory access was encountered")
        if prompt == "exit":
            sys.exit(3)
        if prompt == "wait":
            threading.Event().wait()
        if prompt == "loop":
            while True:
                try:
                    while True:
                        pass
                except Exception:
                    continue
        return super().infer(batch)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangAlarm]:
    """Never rings: how long a batch takes on this machine makes no difference."""
    monkeypatch.setattr(inline_worker, "MAX_BATCH_S", 1000.0)
    made = HangAlarm(1000.0)
    yield made
    made.close()


def worker(watch: HangAlarm) -> InlineWorker:
    return InlineWorker(WorkerSpec("policy/0.0", "policy", "wild", ""), Wild(), watch)


def batch(*prompts: str, **asked: object) -> m.Execute:
    frames = [codec.encode(request(index, prompt=prompt, **asked)) for index, prompt in enumerate(prompts)]
    return m.Execute(5, list(range(len(prompts))), frames)


def test_a_batch_is_answered_in_order_with_encoded_outputs(watch: HangAlarm) -> None:
    one = worker(watch)
    done = one.answered(batch("", "misfit"))
    assert (done.batch_id, done.tickets, causes(done)) == (5, [0, 1], ["ok", "input_rejected"])
    assert codec.decode_output(done.outputs[0]).arrays["actions"].tolist() == [[1, 1], [1, 1]]
    assert one.look_back() is None
    assert one.ready().worker_id == "policy/0.0"


@pytest.mark.parametrize(("prompt", "cause"), [("exit", "model_ended"), ("loop", "hangs"), ("wait", "hangs")])
def test_a_batch_that_does_not_come_back_is_given_to_somebody_else(prompt: str, cause: str) -> None:
    alarm = HangAlarm(0.1 if cause == "hangs" else 1000.0)
    try:
        one = worker(alarm)
        with pytest.raises(InlineEnds) as raised:
            one.answered(batch(prompt))
        assert raised.value.cause == cause
        assert one.look_back() is raised.value
        one.close()
        assert isinstance(one._backend, Wild)
        assert one._backend.closed == 0, "it may do so again"
    finally:
        alarm.close()


def test_who_is_too_slow_is_answered_and_goes(watch: HangAlarm, monkeypatch: pytest.MonkeyPatch) -> None:
    one = worker(watch)
    one.answered(batch(""))
    assert one.look_back() is None
    monkeypatch.setattr(inline_worker, "MAX_BATCH_S", -1000.0)
    assert causes(one.answered(batch(""))) == ["ok"]
    ended = one.look_back()
    assert ended is not None and ended.cause == "too_slow"
    one.close()
    assert isinstance(one._backend, Wild)
    assert one._backend.closed == 1


def test_a_batch_that_is_late_now_and_then_is_no_reason(
    watch: HangAlarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = worker(watch)
    monkeypatch.setattr(inline_worker, "MAX_BATCH_S", -inline_worker.OVER_AT_ONCE_S / 2)
    monkeypatch.setattr(inline_worker, "time", Still())
    one.answered(batch(""))
    assert one.look_back() is None
    one.answered(batch(""))
    one.answered(batch(""))
    assert one.look_back() is not None, "three of them are"


def test_one_that_keeps_the_thread_busy_goes(watch: HangAlarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline_worker, "BUSY_SHARE", 0.1)
    one, clock = worker(watch), Still()
    monkeypatch.setattr(inline_worker, "time", clock)
    clock.step_s = (
        inline_worker.BUSY_AT_ONCE_S / 2
    )  # at each look, which are two for a batch: half of the time
    one.answered(batch(""))
    assert one.look_back() is None
    for _ in range(20):
        one.answered(batch(""))
        if (ended := one.look_back()) is not None:
            break
    assert ended is not None and ended.cause == "too_busy"


class Still:
    """A clock that stands, or goes on by a step at each look."""

    step_s = 0.0
    now_s = 100.0

    def monotonic(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def test_no_picture_is_decoded_in_the_thread_of_the_caller(watch: HangAlarm) -> None:
    one = worker(watch)
    assert causes(one.answered(batch(""))) == ["ok"], "raw ones are arrays already"
    with pytest.raises(InlineEnds) as raised:
        one.answered(batch("", images={"front": encode_image(np.zeros((4, 6, 3), np.uint8))}))
    assert raised.value.cause == "compressed_pictures"


def test_a_model_that_fails_at_everything_goes_when_its_answers_have_left(watch: HangAlarm) -> None:
    one = worker(watch)
    one.answered(batch(""))
    assert isinstance(one._backend, Wild)
    one._backend.fails = True
    for _ in range(MAX_IN_A_ROW):
        assert one.look_back() is None
        assert causes(one.answered(batch(""))) == ["model_error"]
    ended = one.look_back()
    assert ended is not None and ended.cause == "model_broken"


def test_only_the_main_thread_can_be_interrupted() -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(inline_worker.in_main_thread()))
    thread.start()
    thread.join()
    assert found == [False]
    assert inline_worker.in_main_thread()
