"""Hostile clients at the frontends: whatever they do, the others get every answer in time."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from rosa_client import Robot
from rosa_server.frontends.zmtp import GREETING, command, frames, metadata
from rosa_server.models.remote.arrays import Dialect, pack, unpack
from tests.system.frontends.clients import OPENPI, metrics, observation, with_frontends
from tests.system.frontends.gr00t_clients import ONE_CAMERA, Client, flat
from tests.system.server_harness import PATIENCE_S, Server

MODEL = {"images": {"front": [8, 8]}, "latency_ms": 5.0}
FLAT = flat(frames=1)
ROUNDS = 10  # of each good client while an attack goes on
Served = tuple[Server, dict[str, int]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    small = {"max_clients": 16, "max_message_mb": 0.1}
    gr00t = {**ONE_CAMERA, **small}
    with with_frontends(
        tmp_path_factory.mktemp("served"), MODEL, openpi={**OPENPI, **small}, gr00t=gr00t
    ) as it:
        yield it


def line(port: int) -> ClientConnection:
    return connect(f"ws://127.0.0.1:{port}", compression=None, max_size=None, open_timeout=PATIENCE_S)


def patiently(connected: Callable[[], Any]) -> Any:
    """The attackers share this machine's address with everybody, so that a newcomer may have to try again."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return connected()
        except (OSError, WebSocketException):
            assert time.monotonic() < until_s
            time.sleep(0.2)


class Good:
    """An openpi client, a GR00T client and a native robot; each asks, and has to be answered within the SLO of 20 s."""

    def __init__(self, served: Served) -> None:
        server, ports = served
        self._openpi = patiently(lambda: line(ports["openpi"]).__enter__())
        unpack(self._openpi.recv(PATIENCE_S))
        self._gr00t = Client(ports["gr00t"])
        self._native = Robot(server.endpoint, "pick", deadline_ms=20_000)
        self.round()  # from now on they are no strangers

    def round(self) -> None:
        self._openpi.send(pack(observation(), Dialect.OPENPI))
        answer, _ = unpack(self._openpi.recv(20))
        assert answer["actions"].shape == (3, 8)
        assert self._gr00t.call("get_action", FLAT)["action.arm"].shape == (3, 7)
        seen = {
            "front": np.zeros((8, 8, 3), np.uint8),
            "joint_position": np.zeros(7),
            "gripper_width": np.zeros(1),
        }
        assert self._native.infer(seen).actions.shape == (3, 8)

    def close(self) -> None:
        self._openpi.close()
        self._gr00t.close()
        self._native.close()


@contextmanager
def attack(what: Callable[[], None], threads: int = 2) -> Iterator[Callable[[], int]]:
    """Does it again and again, meanwhile; gives how often it was done."""
    over, done = threading.Event(), [0] * threads

    def run(number: int) -> None:
        while not over.is_set():
            with suppress(OSError, WebSocketException, EOFError, TimeoutError):
                what()
            done[number] += 1

    crowd = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for one in crowd:
        one.start()
    try:
        yield lambda: sum(done)
    finally:
        over.set()
        for one in crowd:
            one.join(PATIENCE_S)


def raw(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def fuzz(ports: dict[str, int]) -> None:
    """Damaged messages of both protocols, each on a connection of its own."""
    chance = random.Random()
    whole = bytearray(pack(observation(), Dialect.OPENPI))
    for _ in range(chance.randrange(1, 20)):
        whole[chance.randrange(len(whole))] = chance.randrange(256)
    with line(ports["openpi"]) as one:
        one.recv(PATIENCE_S)
        one.send(bytes(whole))
        one.recv(PATIENCE_S)
    with raw(ports["gr00t"]) as one:
        said = bytearray(
            GREETING + command(b"READY", metadata(Socket_Type=b"REQ")) + frames([b"", bytes(whole)])
        )
        said[chance.randrange(12, len(said))] ^= 1 << chance.randrange(8)
        one.sendall(bytes(said))
        one.shutdown(socket.SHUT_WR)
        while one.recv(1 << 16):
            pass


def objects(ports: dict[str, int]) -> None:
    """Arrays that would be pickles."""
    bad: dict[Any, Any] = {
        b"nd": True,
        b"type": "|O",
        b"kind": b"O",
        b"shape": [1],
        b"data": b"cos\nsystem\n.",
    }
    client = Client(ports["gr00t"])
    assert client.call("get_action", {**FLAT, "state.arm": bad})["error"].startswith("bad_array")
    client.close()
    with line(ports["openpi"]) as one:
        one.recv(PATIENCE_S)
        one.send(pack(observation(**{"observation/joint_position": bad}), Dialect.OPENPI))
        assert str(one.recv(PATIENCE_S)).startswith("bad_array")


def oversized(ports: dict[str, int]) -> None:
    with line(ports["openpi"]) as one:
        one.recv(PATIENCE_S)
        one.send(bytes(200_000))
        one.recv(PATIENCE_S)
    with raw(ports["gr00t"]) as one:
        one.sendall(
            GREETING + command(b"READY", metadata(Socket_Type=b"REQ")) + b"\x01\x00\x02" + b"\x7f" * 8
        )
        while one.recv(1 << 16):
            pass


def dying(ports: dict[str, int]) -> None:
    """Ask, ask again before the answer, and leave without reading."""
    with line(ports["openpi"]) as one:
        one.recv(PATIENCE_S)
        for _ in range(3):
            one.send(pack(observation(), Dialect.OPENPI))
        one.socket.close()
    client = Client(ports["gr00t"])
    client.send("get_action", FLAT)
    client.close()


@pytest.fixture(scope="module")
def good(served: Served) -> Iterator[Good]:
    one = Good(served)
    yield one
    one.close()


@pytest.mark.parametrize("how", [fuzz, objects, oversized, dying], ids=lambda how: how.__name__)
def test_others_are_answered_in_time(
    served: Served, good: Good, how: Callable[[dict[str, int]], None]
) -> None:
    with attack(lambda: how(served[1])) as done:
        until_s = time.monotonic() + PATIENCE_S
        rounds = 0
        while rounds < ROUNDS or done() < 10:
            good.round()
            rounds += 1
            assert time.monotonic() < until_s


def test_silent_connections_make_room_and_those_in_use_stay(served: Served, good: Good) -> None:
    """More than may be open, at both frontends, none of which says anything after its handshake."""
    server, ports = served
    crowd: list[Any] = []
    for number in range(120):
        one = raw(ports["openpi"] if number % 2 else ports["gr00t"])
        if number % 4 == 0:
            one.sendall(GREETING + command(b"READY", metadata(Socket_Type=b"REQ")))
        elif number % 4 == 1:
            one.sendall(
                b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
        crowd.append(one)
    for _ in range(ROUNDS):
        good.round()
    newcomer = Good(served)  # takes the place of one that says nothing
    newcomer.round()
    good.round()
    until_s = time.monotonic() + PATIENCE_S
    refused = 'rosa_frontend_refused_total{cause="too_many_clients",frontend="gr00t"}'
    while not metrics(server).get(refused):
        assert time.monotonic() < until_s
        time.sleep(0.1)
    assert all(metrics(server)[f'rosa_frontend_clients{{frontend="{name}"}}'] <= 16 for name in ports)
    for one in crowd:
        one.close()
    newcomer.close()


def test_one_that_never_reads_costs_nobody_else_an_answer(served: Served, good: Good) -> None:
    with patiently(lambda: line(served[1]["openpi"]).__enter__()) as one:
        one.recv(PATIENCE_S)
        one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        request, over = pack(observation(), Dialect.OPENPI), threading.Event()

        def flood() -> None:
            with suppress(OSError, WebSocketException):
                while not over.is_set():
                    one.send(request)

        flooding = threading.Thread(target=flood)
        flooding.start()
        for _ in range(ROUNDS):
            good.round()
        over.set()
        one.socket.shutdown(socket.SHUT_RDWR)
        flooding.join(PATIENCE_S)
