"""vLLM in the worker itself, with a stand-in of its modules: what it is given, who waits, what ends a call."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rosa_server.models import registry
from rosa_server.models.backend import ModelInput
from rosa_server.models.cancellation import Cancellation
from rosa_server.models.language.vllm import ServerError, VllmBackend


class Engine:
    """As `AsyncLLM`: an asynchronous generator for each request, which is dropped when its task is cancelled."""

    made: list[Engine]

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments
        self.asked: list[tuple[Any, Any, str]] = []
        self.gate: threading.Event | None = None
        self.inside = self.limit = self.dropped = 0
        self.ended = False

    @classmethod
    def from_engine_args(cls, arguments: Any) -> Engine:
        if arguments.max_model_len == 0:
            raise ValueError("max_model_len must be positive\nsecond line")
        cls.made.append(cls(arguments))
        return cls.made[-1]

    async def generate(self, prompt: Any, parameters: Any, number: str) -> AsyncIterator[Any]:
        self.asked.append((prompt, parameters, number))
        self.inside += 1
        self.limit = max(self.limit, self.inside)
        try:
            while self.gate is not None and not self.gate.is_set():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.dropped += 1
            raise
        finally:
            self.inside -= 1
        tops = None
        if parameters.logprobs:
            picture = np.asarray(prompt["multi_modal_data"]["image"][0])
            done = 0.9 if picture[..., 0].mean() > picture[..., 2].mean() else 0.2
            shares = {" done": done, "ongoing": 1 - done}
            tops = [
                {
                    key: SimpleNamespace(logprob=math.log(share), decoded_token=token)
                    for key, (token, share) in enumerate(shares.items())
                }
            ]
        yield SimpleNamespace(outputs=[SimpleNamespace(text=f" {prompt['prompt']} ", logprobs=tops)])

    def shutdown(self) -> None:
        self.ended = True


class Arguments(SimpleNamespace):
    max_model_len = None


class Processor:
    def apply_chat_template(self, messages: Any, add_generation_prompt: bool, tokenize: bool) -> str:
        assert add_generation_prompt and not tokenize
        [message] = messages
        return "".join("<image>" if one["type"] == "image" else one["text"] for one in message["content"])


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    def module(name: str, **names: Any) -> None:
        made = ModuleType(name)
        made.__dict__.update(names)
        monkeypatch.setitem(sys.modules, name, made)

    def parameters(temperature: float, max_tokens: int, logprobs: int | None = None) -> Any:
        return SimpleNamespace(temperature=temperature, max_tokens=max_tokens, logprobs=logprobs)

    module("vllm", AsyncEngineArgs=Arguments, SamplingParams=parameters)
    module("vllm.v1")
    module("vllm.v1.engine")
    module("vllm.v1.engine.async_llm", AsyncLLM=Engine)
    module("PIL")
    module("PIL.Image", fromarray=lambda array: array)
    module("transformers", AutoProcessor=SimpleNamespace(from_pretrained=lambda model: Processor()))
    Engine.made = []
    return Engine.made


def loaded(**options: Any) -> VllmBackend:
    made = registry.create("vllm", model="lab/qwen", **options)
    assert isinstance(made, VllmBackend)
    made.load()
    return made


def seen(component: str, colour: tuple[int, int, int] = (200, 0, 0), **more: Any) -> ModelInput:
    return ModelInput(component, "pick the cup", {"front": np.full((48, 64, 3), colour, np.uint8)}, **more)


def test_likelihoods_that_are_no_numbers_are_an_error_and_no_verdict(
    modules: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = loaded()

    async def overflowed(*asked: Any) -> AsyncIterator[Any]:
        tops = [{0: SimpleNamespace(logprob=math.nan, decoded_token="safe")}]
        yield SimpleNamespace(outputs=[SimpleNamespace(text="", logprobs=tops)])

    monkeypatch.setattr(modules[0], "generate", overflowed)
    with pytest.raises(ServerError, match="NaN"):
        backend.infer([seen("safety")])
    backend.close()


def test_a_choice_and_a_text_as_from_a_server(modules: list[Engine]) -> None:
    backend = loaded(engine={"max_model_len": 2048}, questions={"system2": {"prompt": "{prompt}, how?"}})
    (red,), (blue,) = backend.infer([seen("monitor")]), backend.infer([seen("monitor", (0, 0, 200))])
    assert (red.verdict, blue.verdict) == ("done", "ongoing")
    assert backend.infer([seen("system2")])[0].text == "<image>pick the cup, how?"
    [engine] = modules
    told = engine.arguments
    assert (told.model, told.max_num_seqs, told.max_model_len) == ("lab/qwen", 16, 2048)
    assert told.limit_mm_per_prompt == {"image": 1}
    _, parameters, _ = engine.asked[0]
    assert (parameters.temperature, parameters.max_tokens, parameters.logprobs) == (0.0, 1, 20)
    assert len({number for _, _, number in engine.asked}) == 3
    backend.close()
    assert engine.ended


def test_calls_of_many_threads_run_at_once(modules: list[Engine]) -> None:
    backend = loaded(at_once=8)
    assert backend.capabilities.at_once == 8
    [engine] = modules
    engine.gate = threading.Event()
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(backend.infer, [seen("monitor")]) for _ in range(8)]
        until(lambda: engine.inside == 8)
        engine.gate.set()
        assert [one.result(30)[0].verdict for one in answers] == ["done"] * 8
    assert engine.limit == 8
    backend.close()


def test_a_call_ends_at_its_deadline_and_when_it_is_cancelled_and_is_dropped_there(
    modules: list[Engine],
) -> None:
    backend = loaded()
    [engine] = modules
    engine.gate = threading.Event()
    with pytest.raises(TimeoutError, match="did not answer within"):
        backend.infer([seen("monitor", deadline_s=time.monotonic() + 2.0)])
    with pytest.raises(TimeoutError, match="deadline has come"):
        backend.infer([seen("monitor", deadline_s=time.monotonic() - 1)])
    until(lambda: engine.dropped == 1)
    cancellation = Cancellation()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(backend.infer, [seen("monitor", cancellation=cancellation)])
        until(lambda: engine.inside == 1)
        cancellation.cancel()
        with pytest.raises(ServerError, match="nobody waits"):
            waiting.result(25)
    until(lambda: engine.dropped == 2)
    engine.gate.set()
    assert backend.infer([seen("monitor")])[0].verdict == "done", "the next call is not harmed"
    backend.close()


def until(true: Any) -> None:
    until_s = time.monotonic() + 30
    while not true():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_what_vllm_refuses_is_one_line(modules: list[Engine]) -> None:
    with pytest.raises(registry.BackendError) as caught:
        loaded(engine={"max_model_len": 0})
    assert str(caught.value).endswith("lab/qwen: vLLM: max_model_len must be positive")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "url: expected that of a server, or `model`"),
        ({"url": "http://h:1/v1", "engine": {"dtype": "auto"}}, "engine: expected none with `url`"),
        ({"model": "m", "engine": {"max_num_seqs": 3}}, "engine.max_num_seqs: it follows from"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: Any, says: str) -> None:
    with pytest.raises(registry.BackendError) as caught:
        registry.create("vllm", **options)
    assert says in str(caught.value)


def test_without_vllm_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    backend = VllmBackend(model="lab/qwen")
    with pytest.raises(registry.BackendError, match="`rosa env worker --with vllm` makes an environment"):
        backend.load()
