"""A policy server of GR00T behind a backend, in its three dialects: batches, errors, deadlines, restarts."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from rosa_contract.config.adapter import Adapter
from rosa_server.models import registry
from rosa_server.models.adapters.resolving import preset
from rosa_server.models.backend import ModelInput
from rosa_server.models.remote.asking import ServerError
from rosa_server.models.remote.gr00t import Gr00tRemoteBackend

KEY = "annotation.human.action.task_description"


def npy(value: Any) -> Any:
    """As GR00T N1.5 and N1.6 write arrays."""
    if isinstance(value, np.ndarray):
        file = io.BytesIO()
        np.save(file, value, allow_pickle=False)
        return {"__ndarray_class__": True, "as_npy": file.getvalue()}
    return value


def from_npy(entry: dict[str, Any]) -> Any:
    return np.load(io.BytesIO(entry["as_npy"]), allow_pickle=False) if "__ndarray_class__" in entry else entry


def nd(value: Any) -> Any:
    """As msgpack-numpy, which N1.7 uses, writes arrays."""
    if isinstance(value, np.ndarray):
        told = {b"nd": True, b"type": value.dtype.str, b"kind": b"", b"shape": value.shape}
        return {**told, b"data": value.tobytes()}
    return value


def from_nd(entry: dict[Any, Any]) -> Any:
    if b"nd" in entry:
        return np.frombuffer(entry[b"data"], entry[b"type"]).reshape(entry[b"shape"])
    return entry


CODES: dict[str, Any] = {"n1.5": (npy, from_npy), "n1.6": (npy, from_npy), "n1.7": (nd, from_nd)}


class StandIn:
    """A REP socket that answers as `run_gr00t_server.py`."""

    def __init__(self, dialect: str = "n1.6", url: str = "tcp://127.0.0.1:*") -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[Any], Any] = self._answer
        self._dialect, (self._pack, self._unpack) = dialect, CODES[dialect]
        self._context: zmq.Context[Any] = zmq.Context()
        self._socket = self._context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(url)
        self.url = self._socket.getsockopt(zmq.LAST_ENDPOINT).decode()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            if not self._socket.poll(20):
                continue
            hook = {"object_hook": self._unpack, "strict_map_key": False}
            asked = msgpack.unpackb(self._socket.recv(), **hook)
            self.asked.append(asked)
            if asked["endpoint"] == "ping":
                answer: Any = {"status": "ok", "message": "Server is running"}
            else:
                answer = self.answer(asked["data"])
            self._socket.send(msgpack.packb(answer, default=self._pack))
        self._socket.close(0)

    def _answer(self, data: Any) -> Any:
        flat = self._dialect == "n1.5"
        state = data["state.arm"] if flat else data["observation"]["state"]["arm"]
        assert state.dtype == np.float32 and state.ndim == 3 and state.shape[1] == 1
        action = np.repeat(state, 16, axis=1).astype(np.float32) + 1
        return {"action.arm": action} if flat else [{"arm": action}, {"infer_ms": 3.0}]

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(10)
        self._context.term()


@pytest.fixture(params=CODES)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start() -> Iterator[Callable[..., StandIn]]:
    made: list[StandIn] = []

    def start(*arguments: Any) -> StandIn:
        made.append(StandIn(*arguments))
        return made[-1]

    yield start
    for one in made:
        one.close()


def loaded(server: StandIn, **options: Any) -> Gr00tRemoteBackend:
    made = registry.create("gr00t_remote", url=server.url, **options)
    assert isinstance(made, Gr00tRemoteBackend)
    made.load()
    made.warm_up()
    return made


def seen(number: float = 0.0, **more: Any) -> ModelInput:
    image = np.full((8, 8, 3), 7, np.uint8)
    state = {"state.arm": np.full(3, number, np.float32)}
    return ModelInput("system1", f"pick {number:g}", {"video.front": image}, state, **more)


def test_a_batch_of_robots_is_one_call_in_each_dialect(start: Callable[..., StandIn], dialect: str) -> None:
    server = start(dialect)
    backend = loaded(server, dialect=dialect, api_token="t")
    outputs = backend.infer([seen(number) for number in range(3)])
    for number, output in enumerate(outputs):
        np.testing.assert_array_equal(output.arrays["action.arm"], np.full((16, 3), number + 1.0))
    ping, asked = server.asked
    assert ping["endpoint"] == "ping" and asked["api_token"] == "t" and asked["endpoint"] == "get_action"
    if dialect == "n1.5":
        told = asked["data"]
        assert told["video.front"].shape == (3, 1, 8, 8, 3)
        assert told[KEY] == ["pick 0", "pick 1", "pick 2"]
    else:
        assert asked["data"]["options"] is None
        told = asked["data"]["observation"]
        assert told["video"]["front"].shape == (3, 1, 8, 8, 3) and told["video"]["front"].dtype == np.uint8
        assert told["language"] == {KEY: [["pick 0"], ["pick 1"], ["pick 2"]]}
    backend.close()


def test_an_error_of_the_server_is_one_line(start: Callable[..., StandIn]) -> None:
    server = start()
    backend = loaded(server)
    server.answer = lambda data: {"error": "Traceback\nKeyError: 'state.x'"}
    with pytest.raises(ServerError) as caught:
        backend.infer([seen()])
    assert str(caught.value).endswith("KeyError: 'state.x'") and "\n" not in str(caught.value)
    server.answer = lambda data: [{"arm": np.zeros((2, 16, 3))}, {}]
    with pytest.raises(ServerError, match="expected arm of 1 robots, got"):
        backend.infer([seen()])
    server.answer = server._answer
    assert backend.infer([seen()])[0].arrays
    backend.close()


def test_a_late_answer_is_never_taken_for_that_of_the_next_call(start: Callable[..., StandIn]) -> None:
    server, gate = start(), threading.Event()
    backend = loaded(server)

    def slow(data: Any) -> Any:
        gate.wait(30)
        return server._answer(data)

    server.answer = slow
    with pytest.raises(TimeoutError):
        backend.infer([seen(1, deadline_s=time.monotonic() + 0.2)])
    gate.set()
    np.testing.assert_array_equal(backend.infer([seen(5)])[0].arrays["action.arm"][0], [6, 6, 6])
    backend.close()


def test_a_server_that_was_started_anew_is_found_again(start: Callable[..., StandIn]) -> None:
    server = start()
    backend = loaded(server)
    server.close()
    with pytest.raises(TimeoutError):
        backend.infer([seen(1, deadline_s=time.monotonic() + 0.2)])
    start("n1.6", server.url)
    assert backend.infer([seen(2)])[0].arrays["action.arm"][0, 0] == 3
    backend.close()


def test_a_server_that_is_away_is_waited_for_and_then_named(tmp_path: Any) -> None:
    backend = Gr00tRemoteBackend(f"ipc://{tmp_path / 'none'}", timeout_s=0.2, wait_s=0.1)
    with pytest.raises(ServerError, match="no answer"):
        backend.load()
    backend.close()


@pytest.mark.parametrize("name", ["gr00t_libero_panda", "gr00t_droid"])
def test_the_presets_names_are_the_servers(name: str) -> None:
    """What a preset gives and takes has the names that this backend nests and flattens."""
    spec: Adapter = preset(name)
    assert all(name.startswith("video.") for name in spec.cameras)
    assert all(name.startswith("state.") for name in spec.state)
    assert spec.actions is not None and all(name.startswith("action.") for name in spec.actions.columns)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(registry.BackendError, match="expected tcp://HOST:PORT"):
        registry.create("gr00t_remote", url="127.0.0.1:5555")
    with pytest.raises(registry.BackendError, match=r"expected n1\.5, n1\.6, n1\.7"):
        registry.create("gr00t_remote", url="tcp://h:1", dialect="n2")
