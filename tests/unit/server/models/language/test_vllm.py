"""A server of OpenAI's chat protocol behind a backend: what is asked, what its answers mean, and when it is away."""

from __future__ import annotations

import base64
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import cv2
import numpy as np
import pytest

from rosa_server.models import registry
from rosa_server.models.backend import ModelInput
from rosa_server.models.cancellation import Cancellation
from rosa_server.models.language.vllm import ServerError, VllmBackend, likelihoods
from rosa_sim.ports import free_port


class StandIn:
    """Says that red is done, and repeats the words that it was asked otherwise."""

    def __init__(self, models: tuple[str, ...] = ("tiny",)) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.gate: threading.Event | None = None  # answers wait for it
        self.inside = self.limit = 0
        self.answer: Callable[[dict[str, Any]], tuple[int, Any]] = self._answer
        outer, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words: Any) -> None: ...

            def do_GET(self) -> None:
                outer.keys.append(self.headers.get("Authorization", ""))
                self._send(200, {"object": "list", "data": [{"id": name} for name in models]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(body)
                with lock:
                    outer.inside += 1
                    outer.limit = max(outer.limit, outer.inside)
                if outer.gate is not None:
                    outer.gate.wait(30)
                with lock:
                    outer.inside -= 1
                self._send(*outer.answer(body))

            def _send(self, status: int, content: Any) -> None:
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # the client has hung up

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def _answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        content = body["messages"][0]["content"]
        text = content[-1]["text"]
        if not body.get("logprobs"):
            return 200, {"choices": [{"message": {"content": f" {text.upper()} \n"}}]}
        data = base64.b64decode(content[0]["image_url"]["url"].partition("base64,")[2])
        bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        done = 0.9 if bgr[..., 2].mean() > bgr[..., 0].mean() else 0.2
        shares = {" done": done - 0.1, "Do": 0.1, "ongoing": 0.9 - done, "fail": 0.05, "xyz": 0.05}
        tops = [{"token": token, "logprob": math.log(max(share, 1e-9))} for token, share in shares.items()]
        return 200, {"choices": [{"logprobs": {"content": [{"top_logprobs": tops}]}}]}

    def close(self) -> None:
        if self.gate is not None:
            self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture
def server() -> Iterator[StandIn]:
    made = StandIn()
    yield made
    made.close()


def picture(colour: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    return np.full((48, 64, 3), colour, np.uint8)


def loaded(server: StandIn, **options: Any) -> VllmBackend:
    made = registry.create("vllm", url=server.url, **options)
    assert isinstance(made, VllmBackend)
    made.load()
    return made


def seen(component: str, colour: tuple[int, int, int] = (200, 0, 0), **more: Any) -> ModelInput:
    return ModelInput(component, "pick the cup", {"front": picture(colour)}, **more)


def test_an_answer_without_words_is_an_error_and_no_plan(server: StandIn) -> None:
    """As of a server that keeps what a model thinks apart, where the model thought until its last token."""
    backend = loaded(server)
    server.answer = lambda body: (200, {"choices": [{"message": {"content": None}}]})
    with pytest.raises(ServerError, match="no text"):
        backend.infer([seen("system2")])


@pytest.mark.parametrize("data", [b"\xff{}", b'{"n": ' + b"1" * 5000 + b"}", b"[" * 100_000])
def test_an_answer_that_is_no_json_is_an_error_of_the_server(server: StandIn, data: bytes) -> None:
    backend = loaded(server)
    server.answer = lambda body: (200, data)
    with pytest.raises(ServerError, match="no JSON"):
        backend.infer([seen("system2")])


def test_likelihoods_that_are_no_numbers_are_an_error_and_no_verdict(server: StandIn) -> None:
    """As of a model that overflows: it would be most certain of whatever comes first."""
    backend = loaded(server)
    tops = [{"token": "safe", "logprob": math.nan}]
    server.answer = lambda body: (200, {"choices": [{"logprobs": {"content": [{"top_logprobs": tops}]}}]})
    with pytest.raises(ServerError, match="NaN"):
        backend.infer([seen("safety")])


def test_a_choice_is_the_likeliest_of_the_allowed_words(server: StandIn) -> None:
    backend = loaded(server)
    (red,), (blue,) = backend.infer([seen("monitor")]), backend.infer([seen("monitor", (0, 0, 200))])
    assert (red.verdict, blue.verdict) == ("done", "ongoing")
    assert red.text.startswith("ongoing 0.00, done 0.9")
    asked = server.asked[0]
    assert (asked["model"], asked["max_tokens"], asked["temperature"]) == ("tiny", 1, 0)
    assert asked["messages"][0]["content"][-1]["text"].startswith("pick the cup\n")


def test_a_plan_is_a_text(server: StandIn) -> None:
    backend = loaded(server, questions={"system2": {"prompt": "{prompt}, how?", "max_new_tokens": 7}})
    assert backend.infer([seen("system2")])[0].text == "PICK THE CUP, HOW?"
    assert server.asked[0]["max_tokens"] == 7


def test_tokens_that_begin_two_words_count_for_none() -> None:
    told = likelihoods(
        ("open", "close", "closer"), {"op": 0.4, " close": 0.3, "closer": 0.1, "": 0.1, "c": 0.1}
    )
    np.testing.assert_allclose(told, [0.4, 0.0, 0.1])


def test_words_that_a_first_token_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(registry.BackendError) as caught:
        registry.create("vllm", url="http://h:1/v1", questions={"x": {"choices": ["stop", "steer"]}})
    assert "begin alike" in str(caught.value)


def test_calls_go_to_the_server_as_they_come(server: StandIn) -> None:
    backend = loaded(server, at_once=8)
    assert backend.capabilities.at_once == 8
    server.gate = threading.Event()
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(backend.infer, [seen("monitor")]) for _ in range(8)]
        until_s = time.monotonic() + 30
        while server.inside < 8 and time.monotonic() < until_s:
            time.sleep(0.01)
        server.gate.set()
        assert [one.result(30)[0].verdict for one in answers] == ["done"] * 8
    assert server.limit == 8


def test_a_call_ends_at_its_deadline_and_when_it_is_cancelled(server: StandIn) -> None:
    backend = loaded(server)
    server.gate = threading.Event()
    with pytest.raises(TimeoutError):
        backend.infer([seen("monitor", deadline_s=time.monotonic() + 0.2)])
    with pytest.raises(TimeoutError, match="deadline has come"):
        backend.infer([seen("monitor", deadline_s=time.monotonic() - 1)])
    cancellation = Cancellation()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(backend.infer, [seen("monitor", cancellation=cancellation)])
        until_s = time.monotonic() + 30
        while len(server.asked) < 2 and time.monotonic() < until_s:
            time.sleep(0.01)
        cancellation.cancel()
        with pytest.raises((ServerError, TimeoutError)):
            waiting.result(25)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((500, {"error": "CUDA\nout of memory"}), "500 Internal Server Error"),
        ((200, b"no json"), "JSONDecodeError"),
        ((200, {"choices": []}), "no logprobs"),
        ((200, {"choices": [{"message": {"content": "done"}}]}), "no logprobs"),
        ((200, [1]), "expected a JSON object"),
        ((200, b"x" * (2 << 20)), "200 OK"),
    ],
)
def test_an_answer_that_cannot_be_used_fails_the_call_in_one_line(
    server: StandIn, answer: Any, said: str
) -> None:
    backend = loaded(server)
    server.answer = lambda body: answer
    with pytest.raises(ServerError) as caught:
        backend.infer([seen("monitor")])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    server.answer = server._answer
    assert backend.infer([seen("monitor")])[0].verdict == "done", "the next call is not harmed"


def test_the_model_and_the_key_are_checked_when_it_is_loaded(server: StandIn) -> None:
    loaded(server, api_key="secret")
    assert server.keys == ["Bearer secret"]
    with pytest.raises(registry.BackendError, match="no model 'qwen'; there are tiny"):
        loaded(server, model="qwen")


def test_a_server_that_is_away_is_waited_for_and_then_named() -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    with pytest.raises(ServerError, match="ConnectionRefusedError"):
        VllmBackend(url, wait_s=0.1).load()


def test_a_measurement_gives_it_pictures_of_a_usual_camera(server: StandIn) -> None:
    nominal = loaded(server, cameras=["front", "wrist"]).capabilities.nominal
    assert nominal is not None and dict(nominal.images) == {"front": (480, 640), "wrist": (480, 640)}


def test_warm_up_asks_each_kind_of_question(server: StandIn) -> None:
    loaded(server).warm_up()
    assert len(server.asked) == 3


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(registry.BackendError, match="expected http://HOST"):
        registry.create("vllm", url="127.0.0.1:8000")
