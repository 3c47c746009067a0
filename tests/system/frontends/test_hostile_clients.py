"""Hostile clients at the frontends: whatever they do, the others get every answer in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import WebSocketException

from rosa_client import Robot
from rosa_server.frontends.zmtp import command
from rosa_server.models.remote.arrays import Dialect, pack, unpack
from rosa_sim.hostile import wire_attacks
from rosa_sim.hostile.client_attacks import REQ, UPGRADE, Attack, dying, fuzz, line, objects, oversized, raw
from rosa_sim.hostile.wire_attacks import (
    PING,
    compressed,
    endless_headers,
    fragments,
    pings,
    pongs,
    shaken,
    slow_reading,
    upgraded,
    ws_frame,
)
from tests.system.frontends.clients import OPENPI, metrics, observation, with_frontends
from tests.system.frontends.gr00t_clients import ONE_CAMERA, Client, flat
from tests.system.server_harness import PATIENCE_S, Server

MODEL = {"images": {"front": [8, 8]}, "latency_ms": 5.0}
FLAT = flat(frames=1)
GOOD, CROWD = "127.0.0.9", "127.0.0.2"  # addresses to come from
MANY_BYTES = 100_000_000  # more than all buffers between two sockets of one machine
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
        self._openpi = patiently(lambda: line(ports["openpi"], GOOD).__enter__())
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


@pytest.fixture(scope="module")
def good(served: Served) -> Iterator[Good]:
    one = Good(served)
    yield one
    one.close()


BENEATH_MESSAGES = (endless_headers, fragments, pings, pongs, compressed, slow_reading)


@pytest.mark.parametrize(
    "how", [fuzz, objects, oversized, dying, *BENEATH_MESSAGES], ids=lambda how: how.__name__
)
def test_others_are_answered_in_time(
    served: Served, good: Good, how: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_attacks, "FLOOD_S", 0.3)
    with attack(lambda: how(served[1], observation())) as done:
        until_s = time.monotonic() + PATIENCE_S
        rounds = 0
        while rounds < ROUNDS or done() < (2 if how in BENEATH_MESSAGES else 10):
            good.round()
            rounds += 1
            assert time.monotonic() < until_s


def test_silent_connections_make_room_and_those_in_use_stay(served: Served, good: Good) -> None:
    """More than may be open, at both frontends, none of which says anything after its handshake."""
    server, ports = served
    crowd: list[Any] = []
    for number in range(120):
        one = raw(ports["openpi"] if number % 2 else ports["gr00t"], CROWD)
        if number % 4 == 0:
            one.sendall(REQ)
        elif number % 4 == 1:
            one.sendall(UPGRADE)
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


@pytest.mark.parametrize(
    ("frontend", "opened", "ping"),
    [
        ("openpi", upgraded, ws_frame(PING, b"x" * 125)),
        ("gr00t", shaken, command(b"PING", b"\0\x0a" + b"x" * 64)),
    ],
)
def test_pings_are_not_read_while_nobody_reads_their_answers(
    served: Served, good: Good, frontend: str, opened: Callable[[int], socket.socket], ping: bytes
) -> None:
    """Else the answers would be kept, as many as anybody likes."""
    with patiently(lambda: opened(served[1][frontend])) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        one.settimeout(3.0)
        sent, whole = 0, ping * 1000
        with suppress(OSError):  # it is not read any more, or its connection was ended
            while sent < MANY_BYTES:
                sent += one.send(whole)
        assert sent < MANY_BYTES
    good.round()


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
