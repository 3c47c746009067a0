"""vLLM in this process: one engine, asked from many threads, which batches their requests continuously.

The engine lives in the event loop of a thread. Its prompt is what the model's own chat template makes of a picture
for each camera and the question.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.backend import ModelInput
from rosa_server.models.language.chat_server import TOP, ServerError, share_of
from rosa_server.models.language.questions import Question
from rosa_server.models.registry import BackendError
from rosa_server.models.requirements import needs

ENVIRONMENT = "worker --with vllm"
CLOSE_S = 10.0
OURS = ("model", "max_num_seqs", "limit_mm_per_prompt")  # arguments of the engine that follow from others


class VllmEngine:
    """One model."""

    def __init__(self, model: str, pictures: int, at_once: int, arguments: Mapping[str, Any]) -> None:
        """`arguments`: of `vllm.AsyncEngineArgs`. Raises `ValueError` for those that are set elsewhere."""
        if wrong := [name for name in OURS if name in arguments]:
            raise ValueError(f"engine.{wrong[0]}: it follows from `model`, `at_once` and `cameras`")
        limit = {"max_num_seqs": at_once, "limit_mm_per_prompt": {"image": pictures}}
        self._model, self._arguments = model, {"model": model, **limit, **arguments}
        self._numbers = count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._engine: Any = None

    def open(self) -> None:
        """Raises `BackendError` and `FileNotFoundError`, in one line each."""
        needs.folder_of(self._model)
        self._vllm = needs.package("vllm", ENVIRONMENT)
        kind = needs.package("vllm.v1.engine.async_llm", ENVIRONMENT).AsyncLLM
        self._pillow = needs.package("PIL.Image", ENVIRONMENT)
        processors = needs.package("transformers", ENVIRONMENT).AutoProcessor
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        self._thread.start()

        async def made() -> Any:
            return kind.from_engine_args(self._vllm.AsyncEngineArgs(**self._arguments))

        try:
            self._processor = processors.from_pretrained(self._model)
            self._engine = asyncio.run_coroutine_threadsafe(made(), self._loop).result()
        except Exception as error:
            self.close()
            # Whatever vLLM makes of a folder, of arguments, of too little memory.
            words = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise BackendError("bad_weights", f"{self._model}: vLLM: {words[:300]}") from error

    def said(
        self, one: ModelInput, pictures: Sequence[NDArray[np.uint8]], question: Question, timeout_s: float
    ) -> str | dict[str, float]:
        """As `ChatServer.said`. Raises `ServerError`, and `TimeoutError` when `timeout_s` came first."""
        content = [*[{"type": "image"} for _ in pictures], {"type": "text", "text": question.text(one)}]
        messages = [{"role": "user", "content": content}]
        prompt: dict[str, Any] = {
            "prompt": self._processor.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=False
            )
        }
        if pictures:
            prompt["multi_modal_data"] = {"image": [self._pillow.fromarray(one) for one in pictures]}
        first = (
            {"max_tokens": 1, "logprobs": TOP}
            if question.choices
            else {"max_tokens": question.max_new_tokens}
        )
        assert self._loop is not None, "it was not loaded"
        asked = self._generated(prompt, self._vllm.SamplingParams(temperature=0.0, **first))
        future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        one.cancellation.when(future.cancel)
        try:
            answer = future.result(timeout_s)
        except concurrent.futures.CancelledError as error:
            raise ServerError("vLLM: nobody waits for the answer any more") from error
        except concurrent.futures.TimeoutError as error:
            future.cancel()  # which makes vLLM drop it
            raise TimeoutError(f"vLLM did not answer within {timeout_s:.1f} s") from error
        if not question.choices:
            return str(answer.text)
        if not answer.logprobs:
            raise ServerError("vLLM: it answered no logprobs")
        tops = answer.logprobs[0].values()
        try:
            return {str(top.decoded_token): share_of(top.logprob) for top in tops}
        except ValueError as error:
            raise ServerError(f"vLLM: {error}") from None

    def close(self) -> None:
        """End the engine and its thread."""
        if self._engine is not None:
            with contextlib.suppress(Exception):
                self._engine.shutdown()
            self._engine = None
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()
        self._loop = self._thread = None

    async def _generated(self, prompt: Mapping[str, Any], parameters: Any) -> Any:
        """The answer to one prompt. A request whose task is cancelled is dropped by vLLM."""
        answer = None
        async for said in self._engine.generate(prompt, parameters, f"rosa-{next(self._numbers)}"):
            answer = said
        if answer is None or not answer.outputs:
            raise ServerError("vLLM: it answered nothing")
        return answer.outputs[0]
