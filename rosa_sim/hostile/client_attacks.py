"""What hostile clients do to a frontend, once. Each connection comes from another address of this machine."""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from rosa_server.frontends.zmtp import GREETING, command, frames, metadata
from rosa_server.models.remote.arrays import Dialect, pack

PATIENCE_S = 30.0
CROWD = 1000
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
REQ = GREETING + command(b"READY", metadata(Socket_Type=b"REQ"))
# A pickle, which would call os.system if anybody loaded it; and an array of a billion rows without a value.
OBJECTS: dict[Any, Any] = {
    b"nd": True,
    b"type": "|O",
    b"kind": b"O",
    b"shape": [1],
    b"data": b"cos\nsystem\n(S'true'\ntR.",
}
EMPTY: dict[Any, Any] = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": [10**9, 1, 0], b"data": b""}
QUIET = logging.getLogger("rosa.hostile.websockets")  # what is done to connections here is no news
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
Ports = Mapping[str, int]  # of the frontends `openpi` and `gr00t`
Attack = Callable[[Ports, Mapping[str, Any]], None]  # and an openpi client's observation


def line(port: int, source: str = "") -> ClientConnection:
    """An openpi client's connection."""
    return connect(
        f"ws://127.0.0.1:{port}",
        sock=raw(port, source),
        compression=None,
        max_size=None,
        open_timeout=PATIENCE_S,
        logger=QUIET,
    )


def raw(port: int, source: str = "") -> socket.socket:
    """`source`: the address to come from; empty: any."""
    own = source or f"127.2.{random.randrange(256)}.{random.randrange(1, 255)}"
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S, source_address=(own, 0))


def drained(one: socket.socket) -> None:
    while one.recv(1 << 16):
        pass


def fuzz(ports: Ports, observation: Mapping[str, Any]) -> None:
    """Damaged messages of both protocols."""
    chance = random.Random()
    whole = bytearray(pack(dict(observation), Dialect.OPENPI))
    for _ in range(chance.randrange(1, 20)):
        whole[chance.randrange(len(whole))] = chance.randrange(256)
    with line(ports["openpi"]) as one:
        one.recv(PATIENCE_S)
        one.send(bytes(whole))
        one.recv(PATIENCE_S)
    with raw(ports["gr00t"]) as other:
        said = bytearray(REQ + frames([b"", bytes(whole)]))
        said[chance.randrange(12, len(said))] ^= 1 << chance.randrange(8)
        other.sendall(bytes(said))
        other.shutdown(socket.SHUT_WR)
        drained(other)


def objects(ports: Ports, observation: Mapping[str, Any]) -> None:
    """Arrays that would be pickles, and such that need no bytes however large they are."""
    for bad in (OBJECTS, EMPTY):
        with line(ports["openpi"]) as one:
            one.recv(PATIENCE_S)
            one.send(pack({**observation, "observation/joint_position": bad}, Dialect.OPENPI))
            one.recv(PATIENCE_S)
        with raw(ports["gr00t"]) as other:
            request = {"endpoint": "get_action", "data": {"state.arm": bad}}
            other.sendall(REQ + frames([b"", pack(request, Dialect.ND)]))
            other.shutdown(socket.SHUT_WR)
            drained(other)


def oversized(ports: Ports, observation: Mapping[str, Any]) -> None:
    """Messages above every limit, said and sent."""
    with line(ports["openpi"]) as one:
        one.recv(PATIENCE_S)
        one.send(bytes(200_000))
        one.recv(PATIENCE_S)
    with raw(ports["gr00t"]) as other:
        other.sendall(REQ + b"\x01\x00\x02" + b"\x7f" * 8)
        drained(other)


def dying(ports: Ports, observation: Mapping[str, Any]) -> None:
    """Ask, ask again before the answer, and leave without reading."""
    request = pack(dict(observation), Dialect.OPENPI)
    with line(ports["openpi"]) as one:
        one.recv(PATIENCE_S)
        for _ in range(3):
            one.send(request)
        one.socket.close()
    with raw(ports["gr00t"]) as other:
        asks = {"endpoint": "get_action", "data": {"observation": {}, "options": None}}
        other.sendall((REQ + frames([b"", pack(asks, Dialect.NPY)])) * 3)


def never_reading(ports: Ports, observation: Mapping[str, Any]) -> None:
    """Ask for a second without taking an answer."""
    request = pack(dict(observation), Dialect.OPENPI)
    with line(ports["openpi"]) as one:
        one.recv(PATIENCE_S)
        one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        one.socket.settimeout(1.0)
        end_s = time.monotonic() + 1.0
        with suppress(OSError, WebSocketException):
            while time.monotonic() < end_s:
                one.send(request)
        one.socket.close()


def silence(ports: Ports, observation: Mapping[str, Any]) -> None:
    """A thousand connections from many addresses that say nothing, or nothing after their handshake."""
    crowd: list[socket.socket] = []
    for number in range(CROWD):
        source = f"127.1.{1 + number % 50}.{1 + number // 50}"
        with suppress(OSError):
            one = raw(ports["openpi"] if number % 2 else ports["gr00t"], source)
            crowd.append(one)
            if number % 4 < 2:
                one.sendall(UPGRADE if number % 2 else REQ)
    time.sleep(2.0)
    for one in crowd:
        one.close()


ATTACKS: Mapping[str, Attack] = {
    "damaged messages": fuzz,
    "object arrays, and arrays of a billion rows without values": objects,
    "messages above every limit": oversized,
    "clients that ask and leave": dying,
    "clients that never read": never_reading,
    f"{CROWD} silent connections": silence,
}
SEEN = {  # as an openpi client sends it, in a mapping of one camera, seven joints and a gripper
    "observation/image": np.zeros((16, 16, 3), np.uint8),
    "observation/joint_position": np.zeros(7),
    "observation/gripper_position": np.array([0.25]),
    "prompt": "pick the cube",
}
