"""openpi's own client, unmodified (openpi-client of PyPI), works against ROSA, and shares batches with other robots."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Opcode
from websockets.sync.client import ClientConnection, connect

from rosa_client import Robot
from rosa_server.frontends.limits import MAX_PENDING
from rosa_server.models import registry
from rosa_server.models.backend import ModelInput
from rosa_server.models.remote.arrays import Dialect, pack, unpack
from rosa_server.serving.edge.access import make_keys
from rosa_sim.hostile.client_attacks import OBJECTS
from tests.system.frontends.clients import (
    GRIPPER,
    JOINTS_DEG,
    OPENPI,
    metrics,
    observation,
    ready,
    with_frontends,
)
from tests.system.server_harness import PATIENCE_S, Server

# The client opens its connection in a way that newer versions of websockets advise against.
pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used:DeprecationWarning")
Served = tuple[Server, dict[str, int]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    few = {**OPENPI, "slo_ms": 150}
    with with_frontends(
        tmp_path_factory.mktemp("served"),
        {"latency_ms": 100.0, "per_item_ms": 10.0},
        openpi=OPENPI,
        hurried=few,
    ) as it:
        yield it


def wire(port: int, path: str = "/") -> ClientConnection:
    return connect(f"ws://127.0.0.1:{port}{path}", compression=None, max_size=None, open_timeout=PATIENCE_S)


def connected(host: str, port: int) -> WebsocketClientPolicy:
    """The client gives up after ten seconds, whatever keeps the machine busy."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return WebsocketClientPolicy(host, port)
        except TimeoutError:
            assert time.monotonic() < end_s


def until(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_the_client_gets_metadata_actions_in_its_own_units_and_timings(served: Served) -> None:
    client = WebsocketClientPolicy("127.0.0.1", served[1]["openpi"])
    assert client.get_server_metadata() == {"robot": "panda"}
    first, second = client.infer(observation()), client.infer(observation())
    # The emulated model answers where the robot stands, so that what comes back is what was sent.
    assert first["actions"].shape == (3, 8) and first["actions"].dtype == np.float32
    assert first["actions"][0] == pytest.approx([*JOINTS_DEG, GRIPPER], rel=1e-4)
    assert first["server_timing"]["infer_ms"] >= 110 and "prev_total_ms" not in first["server_timing"]
    assert second["server_timing"]["prev_total_ms"] > 0
    client._ws.close()


def test_its_robots_and_native_ones_run_in_one_batch_and_are_counted(served: Served) -> None:
    server, ports = served
    before = metrics(server)
    shared = threading.Event()

    def openpi(number: int) -> int:
        client, calls = WebsocketClientPolicy("127.0.0.1", ports["openpi"]), 0
        while not shared.is_set():
            calls += 1
            assert client.infer(observation())["actions"].shape == (3, 8)
            time.sleep(
                0.02 * ((3 * calls + number) % 8)
            )  # or they would all run together, and the native one alone
        client._ws.close()
        return calls

    def native() -> int:
        seen = {
            "front": np.zeros((8, 8, 3), np.uint8),
            "joint_position": np.zeros(7),
            "gripper_width": np.zeros(1),
        }
        end_s, calls = time.monotonic() + PATIENCE_S, 0
        with Robot(server.endpoint, "pick", deadline_ms=20_000) as robot:
            while not shared.is_set() and time.monotonic() < end_s:
                calls += 1
                if robot.infer(seen).batch_size > 1:  # there is one native robot, so others are in its batch
                    shared.set()
                time.sleep(0.02 * (calls % 7))
        seen_together = shared.is_set()
        shared.set()
        assert seen_together
        return calls

    with ThreadPoolExecutor(5) as pool:
        results = [pool.submit(native), *(pool.submit(openpi, number) for number in range(4))]
        calls = sum(result.result() for result in results)
    until(lambda: metrics(server)['rosa_frontend_clients{frontend="openpi"}'] == 0)
    answered = 'rosa_requests_total{component="system1",status="ok"}'
    # The last one is counted after its answer has left.
    until(lambda: metrics(server)[answered] - before.get(answered, 0) >= calls)
    assert metrics(server)[answered] - before.get(answered, 0) == calls


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"observation/image": np.zeros((16, 16), np.uint8)}, "wrong_value: observation/image"),
        ({"observation/jiont_position": np.zeros(7)}, "unmapped: nothing takes observation/jiont_position"),
        ({"observation/joint_position": np.full(7, np.nan)}, "wrong_value: observation/joint_position"),
        ({"observation/joint_position": OBJECTS}, "bad_array: "),
        ({"observation/joint_position": [[0.0], [0.0, 0.0]]}, "wrong_value: observation/joint_position"),
        ({"endpoint": np.zeros(2)}, "bad_request: endpoint"),
    ],
)
def test_a_refusal_comes_through_the_clients_own_error_channel(
    served: Served, changes: dict[str, Any], said: str
) -> None:
    client = WebsocketClientPolicy("127.0.0.1", served[1]["openpi"])
    with pytest.raises(RuntimeError, match=said):
        client.infer(observation(**changes))
    with pytest.raises(ConnectionClosed) as closed:
        client._ws.recv(PATIENCE_S)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1011


def test_a_deadline_of_the_frontend_is_said_as_such(served: Served) -> None:
    ports = served[1]
    clients = [WebsocketClientPolicy("127.0.0.1", ports["hurried"]) for _ in range(8)]

    def call(client: WebsocketClientPolicy) -> str:
        try:
            client.infer(observation())
        except RuntimeError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(8) as pool:  # a batch of eight takes 180 ms
        said = list(pool.map(call, clients))
    missed = [words for words in said if words]
    assert missed and all("deadline_missed" in words or "budget_spent" in words for words in missed), said


def test_pings_are_answered_while_a_batch_runs_and_health_is_said(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with wire(served[1]["openpi"]) as line:
        line.recv(PATIENCE_S)
        came: list[Opcode] = []
        process = line.process_event

        def processed(event: Any) -> None:
            """In the connection's thread, in the order in which frames come."""
            came.append(event.opcode)
            process(event)

        monkeypatch.setattr(line, "process_event", processed)
        line.send(pack(observation(), Dialect.OPENPI))
        assert line.ping().wait(PATIENCE_S)
        assert unpack(line.recv(PATIENCE_S))[0]["actions"].shape == (3, 8)
        assert came == [Opcode.PONG, Opcode.BINARY], "the pong came before the answer"
    health = urllib.request.urlopen(f"http://127.0.0.1:{served[1]['openpi']}/healthz", timeout=PATIENCE_S)
    assert (health.status, health.read()) == (200, b"OK\n")


def test_vllm_omnis_path_has_its_metadata_reset_and_bare_arrays(served: Served) -> None:
    with wire(served[1]["openpi"], "/v1/realtime/robot/openpi") as line:
        told, _ = unpack(line.recv(PATIENCE_S))
        told.pop("robot")
        assert told == {
            "image_resolution": [8, 8],
            "n_external_cameras": 1,
            "needs_wrist_camera": False,
            "needs_stereo_camera": False,
            "needs_session_id": False,
            "action_space": "joint_position",
        }
        line.send(pack({"endpoint": "reset", "session_id": "a"}, Dialect.OPENPI))
        assert line.recv(PATIENCE_S) == "reset successful"
        line.send(pack({**observation(), "endpoint": "infer", "session_id": "a"}, Dialect.ND))
        assert unpack(line.recv(PATIENCE_S))[0].shape == (3, 8)


def test_a_web_page_cannot_connect(served: Served) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{served[1]['openpi']}", origin="http://example.com", open_timeout=PATIENCE_S)
    assert refused.value.response.status_code == 403


def test_keys(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", "panda0")
    secret = (
        (tmp_path / "keys/robots/panda0.key_secret").read_text().split('secret-key = "')[1].partition('"')[0]
    )
    with with_frontends(tmp_path, wait=False, openpi=OPENPI) as (server, ports):
        server.stop()
        server._arguments = ["--keys", str(tmp_path / "keys")]
        server._log.unlink()
        server.start()
        ready(server)
        for wrong in ("", "x" * 40, secret[::-1]):
            with pytest.raises(InvalidStatus) as refused:
                WebsocketClientPolicy("127.0.0.1", ports["openpi"], wrong or None)
            assert refused.value.response.status_code == 401
        for _ in range(2):  # also again: the name is free as soon as its client has gone
            client = WebsocketClientPolicy("127.0.0.1", ports["openpi"], secret)
            assert client.infer(observation())["actions"].shape == (3, 8)
            client._ws.close()


def test_over_tls_a_client_is_answered_beside_a_crowd_that_never_ends_its_handshake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate is of this test, for 127.0.0.1, and good for a hundred years."""
    tls = Path(__file__).parent / "tls"
    monkeypatch.setenv("SSL_CERT_FILE", str(tls / "certificate.pem"))
    own = {"tls_certificate": str(tls / "certificate.pem"), "tls_key": str(tls / "key.pem")}
    with with_frontends(tmp_path, openpi={**OPENPI, **own}) as (server, ports), ExitStack() as closing:
        for number in range(MAX_PENDING + 10):
            address = ("127.0.0.1", ports["openpi"])
            one = socket.create_connection(address, PATIENCE_S, source_address=(f"127.0.1.{number + 1}", 0))
            closing.enter_context(one)
        client = connected("wss://127.0.0.1", ports["openpi"])
        closing.callback(client._ws.close)
        assert client.infer(observation())["actions"].shape == (3, 8)
        refused = 'rosa_frontend_refused_total{cause="too_many_connections",frontend="openpi"}'
        until(lambda: metrics(server).get(refused, 0) >= 10)


def test_a_taken_port_is_said_at_the_start(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        one = {**OPENPI, "bind": f"127.0.0.1:{taken.getsockname()[1]}"}
        with with_frontends(tmp_path, wait=False, openpi=one) as (server, _):
            assert server.process is not None and server.process.wait(PATIENCE_S) == 2
            assert "frontends.openpi: cannot work as configured" in server.log()
            assert "address already in use" in server.log().lower()


def test_a_frontend_that_is_killed_comes_back_and_ends_with_its_server(tmp_path: Path) -> None:
    with with_frontends(tmp_path, openpi=OPENPI) as (server, ports):
        (started,) = server.events("frontend_started")
        os.kill(started["pid"], signal.SIGKILL)
        until(lambda: len(server.events("frontend_listening")) == 2)
        client = WebsocketClientPolicy("127.0.0.1", ports["openpi"])
        assert client.infer(observation())["actions"].shape == (3, 8)
        second = psutil.Process(server.events("frontend_started")[-1]["pid"])
        assert server.stop() == 0
        second.wait(PATIENCE_S)


def test_the_backend_for_such_servers_is_a_client_too(served: Served) -> None:
    backend = registry.create("openpi_remote", url=f"ws://127.0.0.1:{served[1]['openpi']}")
    backend.load()
    told = observation()
    images, prompt = {"observation/image": told.pop("observation/image")}, told.pop("prompt")
    for _ in range(2):
        (output,) = backend.infer([ModelInput("system1", prompt, images, told)])
        assert output.arrays["actions"][0] == pytest.approx([*JOINTS_DEG, GRIPPER], rel=1e-4)
    hurried = registry.create("openpi_remote", url=f"ws://127.0.0.1:{served[1]['hurried']}")
    hurried.load()
    wrong = {"observation/image": np.zeros((16, 16), np.uint8)}
    with pytest.raises(RuntimeError, match="wrong_value: observation/image"):
        hurried.infer([ModelInput("system1", prompt, wrong, told)])
    backend.close()
    hurried.close()


def test_the_backend_for_vllm_omni_speaks_with_the_same_door(served: Served) -> None:
    """Its path, its `reset`, its sessions and its bare arrays, as this frontend has them."""
    backend = registry.create("vllm_omni_remote", url=f"ws://127.0.0.1:{served[1]['openpi']}")
    backend.load()
    told = observation()
    images, prompt = {"observation/image": told.pop("observation/image")}, told.pop("prompt")
    for robot in ("a", "b", "a"):
        (output,) = backend.infer([ModelInput("system1", prompt, images, told, robot)])
        assert output.arrays["actions"][0] == pytest.approx([*JOINTS_DEG, GRIPPER], rel=1e-4)
    wrong = {"observation/image": np.zeros((16, 16), np.uint8)}
    with pytest.raises(RuntimeError, match="wrong_value: observation/image"):
        backend.infer([ModelInput("system1", prompt, wrong, told, "a")])
    assert len(backend.infer([ModelInput("system1", prompt, images, told, "a")])) == 1, "it connects again"
    backend.close()
