"""A vLLM-Omni server behind a backend: its sessions, its bare answers, its errors that leave the connection open."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from openpi_client import msgpack_numpy
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from rosa_server.models import registry
from rosa_server.models.backend import ModelInput
from rosa_server.models.remote.asking import ServerError
from rosa_server.models.remote.vllm_omni import PATH, VllmOmniRemoteBackend

METADATA = {
    "image_resolution": (180, 320),
    "n_external_cameras": 2,
    "needs_wrist_camera": True,
    "needs_stereo_camera": False,
    "needs_session_id": True,
    "action_space": "joint_position",
}


class StandIn:
    """Does on the wire what vLLM-Omni's connection handler does, and keeps one count per session as its models keep
    frames; written from its messages, with openpi's own packer."""

    def __init__(self, policy: Callable[[dict[str, Any], int], Any]) -> None:
        self.seen: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.calls: dict[str, int] = {}

        def handle(connection: ServerConnection) -> None:
            assert connection.request is not None
            self.paths.append(connection.request.path)
            connection.send(msgpack_numpy.packb(METADATA))
            with contextlib.suppress(ConnectionClosed):
                while True:
                    told = msgpack_numpy.unpackb(connection.recv())
                    self.seen.append(told)
                    session = told.pop("session_id")
                    if told.pop("endpoint", "infer") == "reset":
                        self.calls.pop(session, None)
                        connection.send("reset successful")
                        continue
                    self.calls[session] = self.calls.get(session, 0) + 1
                    try:
                        answer = policy(told, self.calls[session])
                    except Exception as error:
                        connection.send(f"Traceback (most recent call last):\n  File x\n{error!r}")
                        continue
                    connection.send(msgpack_numpy.packb(answer))

        self._server = serve(handle, "127.0.0.1", 0, compression=None, max_size=None)
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(10)


def counted(told: dict[str, Any], call: int) -> Any:
    """Rows that say which call of its session it is."""
    if told["state"][0] == 9:
        raise KeyError("observation/state")
    if told["state"][0] == 8:
        return {"type": "error", "error": "CUDA out of memory"}
    return np.full((4, 3), call, np.float32)


@pytest.fixture
def server() -> Iterator[StandIn]:
    made = StandIn(counted)
    yield made
    made.close()


def loaded(server: StandIn, **options: Any) -> VllmOmniRemoteBackend:
    made = registry.create("vllm_omni_remote", url=server.url, **options)
    assert isinstance(made, VllmOmniRemoteBackend)
    made.load()
    made.warm_up()
    return made


def asked(
    backend: VllmOmniRemoteBackend, number: float = 0.0, robot: str = "a", prompt: str = "pick"
) -> float:
    image = np.zeros((8, 8, 3), np.uint8)
    one = ModelInput("system1", prompt, {"image": image}, {"state": np.full(3, number, np.float32)}, robot)
    (output,) = backend.infer([one])
    assert output.arrays.keys() == {"actions"} and output.arrays["actions"].shape == (4, 3)
    return float(output.arrays["actions"][0, 0])


def test_each_robot_has_a_session_that_begins_anew_with_another_prompt(server: StandIn) -> None:
    backend = loaded(server, embodiment="droid")
    assert [asked(backend) for _ in range(3)] == [1, 2, 3]
    assert asked(backend, robot="b") == 1
    assert asked(backend) == 4, "the other robot's calls are not its own"
    assert asked(backend, prompt="place") == 1
    assert server.paths == [PATH], "one connection, on the path of the protocol"
    told = server.seen[1]
    assert told.keys() == {"image", "state", "prompt", "embodiment"} and told["embodiment"] == "droid"
    assert backend.metadata["needs_session_id"] is True
    backend.close()


def test_a_robot_that_was_silent_begins_anew(server: StandIn) -> None:
    backend = loaded(server, idle_s=0.0)
    assert [asked(backend), asked(backend)] == [1, 1]
    backend.close()


@pytest.mark.parametrize(
    ("number", "says"), [(9.0, "KeyError('observation/state')"), (8.0, "CUDA out of memory")]
)
def test_an_error_is_one_line_and_harms_no_later_call(server: StandIn, number: float, says: str) -> None:
    backend = loaded(server)
    asked(backend)
    with pytest.raises(ServerError) as caught:
        asked(backend, number)
    assert str(caught.value).endswith(says)
    assert asked(backend) == 1, "what a failed call left behind is gone"
    backend.close()


def test_a_server_that_knows_no_reset_is_named(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = loaded(server)
    monkeypatch.setattr(backend, "_exchanged", lambda one, frame, until_s: b"\x80")
    with pytest.raises(
        ServerError, match="reset: expected 'reset successful', got an answer that is no text"
    ):
        asked(backend)
    backend.close()


def test_another_path_stays_as_it_is() -> None:
    assert VllmOmniRemoteBackend("ws://h:1/robots/openpi")._url == "ws://h:1/robots/openpi"
    assert VllmOmniRemoteBackend("ws://h:1/")._url == f"ws://h:1{PATH}"
    with pytest.raises(registry.BackendError, match="expected ws://HOST:PORT"):
        registry.create("vllm_omni_remote", url="127.0.0.1:8000")
