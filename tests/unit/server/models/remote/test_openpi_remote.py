"""A policy server of openpi behind a backend: what openpi's own packer reads, errors, deadlines, restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from openpi_client import msgpack_numpy
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from rosa_contract.config.adapter import Adapter
from rosa_server.models import registry
from rosa_server.models.adapters import behind
from rosa_server.models.adapters.resolving import resolve
from rosa_server.models.backend import ModelInput
from rosa_server.models.cancellation import Cancellation
from rosa_server.models.remote.asking import ServerError
from rosa_server.models.remote.openpi import OpenpiRemoteBackend
from rosa_sim.ports import free_port


class StandIn:
    """Serves as openpi's `WebsocketPolicyServer` does: metadata, then an answer for each observation."""

    def __init__(self, policy: Callable[[dict[str, Any]], Any], port: int = 0) -> None:
        self.seen: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

        def handle(connection: ServerConnection) -> None:
            packer = msgpack_numpy.Packer()
            assert connection.request is not None
            self.keys.append(connection.request.headers.get("Authorization"))
            connection.send(packer.pack({"policy": "stand-in"}))
            try:
                while True:
                    told = msgpack_numpy.unpackb(connection.recv())
                    self.seen.append(told)
                    try:
                        answer = policy(told)
                    except Exception as error:
                        connection.send(f"Traceback (most recent call last):\n  File x\n{error!r}")
                        connection.close(1011, "Internal server error.")
                        return
                    connection.send(packer.pack(answer))
            except ConnectionClosed:
                pass

        self._server = serve(handle, "127.0.0.1", port, compression=None, max_size=None)
        self.port = self._server.socket.getsockname()[1]
        self.url = f"ws://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(10)


def plus_one(told: dict[str, Any]) -> dict[str, Any]:
    rows = np.tile(told["state"] + 1, (4, 1)).astype(np.float64)
    return {
        "actions": rows,
        "server_timing": {"infer_ms": 1.5},
        "policy_timing": {"infer_ms": np.float64(1.0)},
    }


@pytest.fixture
def start() -> Iterator[Callable[..., StandIn]]:
    made: list[StandIn] = []

    def start(policy: Callable[[dict[str, Any]], Any] = plus_one, port: int = 0) -> StandIn:
        made.append(StandIn(policy, port))
        return made[-1]

    yield start
    for one in made:
        one.close()


def loaded(server: StandIn, **options: Any) -> OpenpiRemoteBackend:
    made = registry.create("openpi_remote", url=server.url, **options)
    assert isinstance(made, OpenpiRemoteBackend)
    made.load()
    made.warm_up()
    return made


def seen(number: float = 0.0, **more: Any) -> ModelInput:
    image = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    return ModelInput("system1", "pick", {"image": image}, {"state": np.full(3, number, np.float32)}, **more)


def test_openpis_own_packer_reads_what_is_sent_and_its_answer_is_read(start: Callable[..., StandIn]) -> None:
    server = start()
    backend = loaded(server, api_key="k")
    outputs = [backend.infer([seen(number)])[0] for number in range(3)]
    for number, output in enumerate(outputs):
        np.testing.assert_array_equal(output.arrays["actions"], np.full((4, 3), number + 1.0))
        assert output.arrays.keys() == {"actions"}
    told = server.seen[0]
    assert told.keys() == {"image", "state", "prompt"} and told["prompt"] == "pick"
    assert told["image"].dtype == np.uint8 and told["image"].shape == (8, 8, 3)
    assert server.keys == ["Api-Key k"], "one connection for all calls"
    assert backend.metadata == {"policy": "stand-in"}
    backend.close()


def test_behind_an_adapter_it_takes_what_the_adapter_says(start: Callable[..., StandIn]) -> None:
    def droid(told: dict[str, Any]) -> dict[str, Any]:
        assert told["observation/exterior_image_1_left"].shape == (224, 224, 3)
        assert told["observation/joint_position"].shape == (7,)
        assert told["observation/gripper_position"].shape == (1,)
        return {"actions": np.zeros((15, 8))}

    server = start(droid)
    backend = behind(
        registry.create("openpi_remote", url=server.url), resolve(Adapter(preset="openpi_droid")).to_data()
    )
    backend.load()
    pictures = {camera: np.zeros((480, 640, 3), np.uint8) for camera in backend.input_spec.images}
    state = {"joint_position": np.full(7, 0.3, np.float32), "gripper_width": np.float32([0.04])}
    (output,) = backend.infer([ModelInput("system1", "pick", pictures, state)])
    np.testing.assert_allclose(output.arrays["actions"][:, :7], 0.3, atol=1e-6)
    assert float(output.arrays["step_s"][0]) == pytest.approx(1 / 15, abs=1e-3)
    backend.close()


def test_an_error_of_the_server_is_one_line_and_harms_no_later_call(start: Callable[..., StandIn]) -> None:
    def sometimes(told: dict[str, Any]) -> dict[str, Any]:
        if told["state"][0] == 1:
            raise KeyError("observation/state")
        return plus_one(told)

    backend = loaded(start(sometimes))
    backend.infer([seen(0)])
    with pytest.raises(ServerError) as caught:
        backend.infer([seen(1)])
    assert str(caught.value).endswith("KeyError('observation/state')")
    np.testing.assert_array_equal(backend.infer([seen(2)])[0].arrays["actions"][0], [3, 3, 3])
    backend.close()


def test_a_late_answer_is_never_taken_for_that_of_the_next_call(start: Callable[..., StandIn]) -> None:
    gate = threading.Event()

    def slow(told: dict[str, Any]) -> dict[str, Any]:
        if told["state"][0] == 1:
            gate.wait(30)
        return plus_one(told)

    backend = loaded(start(slow))
    with pytest.raises(TimeoutError):
        backend.infer([seen(1, deadline_s=time.monotonic() + 0.2)])
    gate.set()
    np.testing.assert_array_equal(backend.infer([seen(5)])[0].arrays["actions"][0], [6, 6, 6])
    with pytest.raises(TimeoutError, match="deadline has come"):
        backend.infer([seen(1, deadline_s=time.monotonic() - 1)])
    backend.close()


def test_a_cancelled_call_ends_and_its_connection_with_it(start: Callable[..., StandIn]) -> None:
    gate = threading.Event()

    def slow(told: dict[str, Any]) -> dict[str, Any]:
        if told["state"][0] == 1:
            gate.wait(30)
        return plus_one(told)

    server = start(slow)
    backend, cancellation = loaded(server), Cancellation()
    threading.Thread(target=lambda: (_until(lambda: len(server.seen) == 1), cancellation.cancel())).start()
    with pytest.raises((ServerError, TimeoutError)):
        backend.infer([seen(1, cancellation=cancellation)])
    gate.set()
    np.testing.assert_array_equal(backend.infer([seen(2)])[0].arrays["actions"][0], [3, 3, 3])
    backend.close()


def _until(true: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 30
    while not true() and time.monotonic() < until_s:
        time.sleep(0.01)


def test_a_server_that_was_started_anew_is_found_again(start: Callable[..., StandIn]) -> None:
    server = start()
    backend = loaded(server)
    backend.infer([seen(0)])
    server.close()
    with pytest.raises(ServerError):
        backend.infer([seen(1)])
    start(port=server.port)
    np.testing.assert_array_equal(backend.infer([seen(2)])[0].arrays["actions"][0], [3, 3, 3])
    backend.close()


def test_a_server_that_is_away_is_waited_for_and_then_named() -> None:
    backend = OpenpiRemoteBackend(f"ws://127.0.0.1:{free_port()}", wait_s=0.1)
    with pytest.raises(ServerError, match="ConnectionRefusedError"):
        backend.load()


@pytest.mark.parametrize("answer", [{"timing": 1.0}, [1, 2], {"actions": "none"}])
def test_an_answer_without_arrays_is_an_error(start: Callable[..., StandIn], answer: Any) -> None:
    backend = loaded(start(lambda told: answer))
    with pytest.raises(ServerError):
        backend.infer([seen()])
    backend.close()


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(registry.BackendError, match="expected ws://HOST:PORT"):
        registry.create("openpi_remote", url="127.0.0.1:8000")


def test_without_an_adapter_the_factory_file_may_say_what_it_takes() -> None:
    backend = OpenpiRemoteBackend("ws://h:1", images={"front": [96, 96]}, state={"joint_position": 7})
    assert backend.input_spec.images == {"front": (96, 96)}
    assert not backend.capabilities.takes_any
