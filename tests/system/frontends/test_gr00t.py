"""GR00T's clients in their three dialects, written from what is on the wire, work side by side with native robots."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rosa_client import Robot
from rosa_server.models import registry
from rosa_server.models.backend import ModelInput
from rosa_server.serving.edge.access import make_keys
from tests.system.frontends.clients import metrics, ready, with_frontends
from tests.system.frontends.gr00t_clients import GR00T, Client, flat, nd, nested, npy
from tests.system.server_harness import PATIENCE_S, Server

MODEL = {"images": {"front": [8, 8], "before": [8, 8]}, "latency_ms": 100.0}
Served = tuple[Server, dict[str, int]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with with_frontends(tmp_path_factory.mktemp("served"), MODEL, gr00t=GR00T) as it:
        yield it


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    it = Client(served[1]["gr00t"])
    yield it
    it.close()


def test_n15_is_flat_and_answered_with_a_map(client: Client) -> None:
    for endpoint in ("get_action", None):
        actions = client.call(endpoint, flat(first=0.5))
        assert {name: value.shape for name, value in actions.items()} == {
            "action.arm": (3, 7),
            "action.hand": (3, 1),
        }
        assert actions["action.arm"][0, 0] == 0.5 and actions["action.hand"][0, 0] == pytest.approx(0.25)
    config = client.call("get_modality_config")
    assert json.loads(config["video"]["as_json"]) == {
        "delta_indices": [-5, 0],
        "modality_keys": ["video.ego"],
    }


@pytest.mark.parametrize(
    ("encode", "marker"), [(npy, "__ModalityConfig_class__"), (nd, "__ModalityConfig__")]
)
def test_n16_and_n17_are_answered_as_they_ask_and_their_batches_are_split_and_joined(
    served: Served, encode: Callable[[Any], Any], marker: str
) -> None:
    client = Client(served[1]["gr00t"], encode)
    actions, info = client.call("get_action", {"observation": nested(3, first=1.0), "options": None})
    assert {name: value.shape for name, value in actions.items()} == {"arm": (3, 3, 7), "hand": (3, 3, 1)}
    assert actions["arm"][:, 0, 0].tolist() == [1.0, 2.0, 3.0]  # to each its own
    assert info["server_timing"]["infer_ms"] >= 100
    actions, _ = client.call("get_action", {"observation": flat(2), "options": {}})
    assert actions["action.arm"].shape == (2, 3, 7)
    config = client.call("get_modality_config")
    assert config["action"] == {
        marker: True,
        "as_json": {"delta_indices": [0, 1, 2], "modality_keys": ["arm", "hand"]},
    }
    assert client.call("reset", {"options": None}) == {}
    client.close()


def test_ping_is_answered_and_kill_refused(client: Client) -> None:
    assert client.call("ping") == {"status": "ok", "message": "Server is running"}
    assert client.call("kill")["error"].startswith("not_supported: ")
    assert client.call("dance")["error"].startswith("not_supported: Unknown endpoint: dance")
    assert client.call(nd(np.zeros(2)))["error"].startswith("bad_request: endpoint")
    assert client.call("ping")["status"] == "ok"


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("it was unpickled",)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"video.ego": np.zeros((3, 8, 8, 3), np.uint8)}, "wrong_value"),
        ({"video.wrist": np.zeros((1, 8, 8, 3), np.uint8)}, "unmapped"),
        ({"state.arm": np.zeros((2, 1, 7), np.float32)}, "bad_request"),
        ({"state.arm": np.zeros((2, 7), np.float32)}, "bad_request"),
        ({"state.arm": [[0.0], [0.0, 0.0]]}, "wrong_value"),
        ({"state.arm": {"__ndarray_class__": True, "as_npy": pickle.dumps(Bomb())}}, "bad_array"),
        (
            {"state.arm": {b"nd": True, b"type": "|O", b"kind": b"O", b"data": pickle.dumps(Bomb())}},
            "bad_array",
        ),
    ],
)
def test_a_refusal_comes_as_an_error_and_the_client_goes_on(
    client: Client, changes: dict[str, Any], cause: str
) -> None:
    assert client.call("get_action", {**flat(), **changes})["error"].startswith(f"{cause}: ")
    assert client.call("get_action", flat())["action.arm"].shape == (3, 7)


def test_a_token_that_is_no_text_ends_no_connection(served: Served) -> None:
    client = Client(served[1]["gr00t"], token=np.zeros(2))
    assert client.call("ping")["status"] == "ok"
    client.close()


def test_a_batch_is_bounded(client: Client) -> None:
    assert client.call("get_action", {"observation": nested(17)})["error"].startswith("too_large: ")


def test_they_share_batches_with_native_robots(served: Served) -> None:
    server, ports = served
    before = metrics(server)
    shared = threading.Event()

    def native() -> int:
        picture = np.zeros((8, 8, 3), np.uint8)
        state = {"joint_position": np.zeros(7), "gripper_width": np.zeros(1)}
        until_s, calls = time.monotonic() + PATIENCE_S, 0
        with Robot(server.endpoint, "pick", deadline_ms=20_000) as robot:
            while not shared.is_set() and time.monotonic() < until_s:
                calls += 1
                answer = robot.infer({"front": picture, "before": picture, **state})
                if answer.batch_size > 1:  # there is one native robot, so others are in its batch
                    shared.set()
                time.sleep(0.02 * (calls % 7))
        shared_in_time = shared.is_set()
        shared.set()
        assert shared_in_time
        return calls

    def gr00t(number: int) -> int:
        client, calls = Client(ports["gr00t"], (npy, nd)[number % 2]), 0
        while not shared.is_set():
            calls += 1
            assert client.call("get_action", {"observation": nested(2)})[0]["arm"].shape == (2, 3, 7)
            time.sleep(
                0.02 * ((3 * calls + number) % 8)
            )  # or they would all run together, and the native one alone
        client.close()
        return 2 * calls

    with ThreadPoolExecutor(5) as pool:
        results = [pool.submit(native), *(pool.submit(gr00t, number) for number in range(4))]
        calls = sum(result.result() for result in results)
    answered = 'rosa_requests_total{component="system1",status="ok"}'
    until_s = time.monotonic() + PATIENCE_S
    while metrics(server)[answered] - before.get(answered, 0) < calls:  # counted after the answer has left
        assert time.monotonic() < until_s
        time.sleep(0.05)
    assert metrics(server)[answered] - before.get(answered, 0) == calls


def test_a_client_that_timed_out_and_connects_again_has_its_call_cancelled(served: Served) -> None:
    server, ports = served
    cancelled = 'rosa_requests_total{component="system1",status="cancelled"}'
    before = metrics(server).get(cancelled, 0)
    until_s = time.monotonic() + PATIENCE_S
    while metrics(server).get(cancelled, 0) == before:  # a batch may have ended before its client left
        assert time.monotonic() < until_s
        impatient = [Client(ports["gr00t"]) for _ in range(3)]
        for one in impatient:
            one.call("ping")
            one.send("get_action", flat())
        time.sleep(0.02)
        for one in impatient:
            one.close()
    again = Client(ports["gr00t"])
    assert again.call("get_action", flat())["action.arm"].shape == (3, 7)
    again.close()


def test_keys(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", "panda0")
    secret = (
        (tmp_path / "keys/robots/panda0.key_secret").read_text().split('secret-key = "')[1].partition('"')[0]
    )
    arguments = ["--keys", str(tmp_path / "keys")]
    with with_frontends(tmp_path, MODEL, wait=False, gr00t=GR00T) as (server, ports):
        server.stop()
        server._arguments = arguments
        server._log.unlink()
        server.start()
        ready(server)
        for token, endpoint in (("", "ping"), ("x" * 40, "get_action")):
            stranger = Client(ports["gr00t"], token=token)
            assert stranger.call(endpoint, flat()) == {"error": "Unauthorized: Invalid API token"}
            stranger.close()
        robot = Client(ports["gr00t"], token=secret)
        assert robot.call("get_action", flat())["action.arm"].shape == (3, 7)
        assert "too_large" in robot.call("get_action", {"observation": nested(2)})["error"]
        robot.close()


@pytest.mark.parametrize("dialect", ["n1.5", "n1.6", "n1.7"])
def test_the_backend_for_such_servers_is_a_client_too(served: Served, dialect: str) -> None:
    url = f"tcp://127.0.0.1:{served[1]['gr00t']}"
    backend = registry.create("gr00t_remote", url=url, dialect=dialect, prompt_key="annotation.task")
    backend.load()
    pictures = {"video.ego": np.zeros((2, 8, 8, 3), np.uint8)}
    batch = []
    for number in range(3):
        state = {"state.arm": np.full(7, number, np.float32), "state.hand": np.float32([0.5])}
        batch.append(ModelInput("system1", "pick", pictures, state))
    for number, output in enumerate(backend.infer(batch)):
        assert output.arrays["action.arm"].shape == (3, 7)
        assert output.arrays["action.arm"][0] == pytest.approx(np.full(7, number), abs=1e-5)
        assert output.arrays["action.hand"][0] == pytest.approx(0.5, abs=1e-5)
    backend.close()
