"""The robots' ROUTER numbers its peers itself, whatever they call themselves."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import zmq

from rosa_server.serving.edge.robots_socket import UNREAD_ANSWERS, RobotsSocket
from rosa_sim.fuzz.wire import RawPeer, message

PATIENCE_S = 20.0
# A peer takes the name that the next but one connection would get. In a process of its own: it may be ended.
COLLISION = """
import struct, sys, zmq
from rosa_server.serving.edge.robots_socket import RobotsSocket
from rosa_sim.fuzz.wire import RawPeer, message

with zmq.Context() as context:
    if sys.argv[1] == "ours":
        ours = RobotsSocket(context, 1 << 20)
        ours.bind("tcp://127.0.0.1:*")
        socket, endpoint = ours.socket, ours.endpoint
    else:
        socket = context.socket(zmq.ROUTER)
        endpoint = f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"
    socket.rcvtimeo, socket.linger = 20_000, 0

    def name_of(peer):
        peer.send(message([b"x"]))
        return socket.recv_multipart()[0]

    first = RawPeer(endpoint)
    (number,) = struct.unpack(">I", name_of(first)[1:])
    peers = [first, RawPeer(endpoint, name=b"\\0" + struct.pack(">I", (number + 2) % (1 << 32)))]
    names = [name_of(peers[1])]
    for _ in range(4):
        peers.append(RawPeer(endpoint))
        names.append(name_of(peers[-1]))
    print(*[struct.unpack(">I", name[1:])[0] - number for name in names])
    for peer in peers:
        peer.close()
    socket.close()
"""


def collide(whose: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", COLLISION, whose]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def test_a_name_that_a_peer_brings_ends_a_plain_router_and_is_dropped_unread_by_ours() -> None:
    plain = collide("plain")
    assert plain.returncode == -signal.SIGABRT and "Assertion failed" in plain.stderr
    ours = collide("ours")
    assert (ours.returncode, ours.stdout.split()) == (0, ["1", "2", "3", "4", "5"]), ours.stderr


@pytest.fixture
def robots() -> Iterator[RobotsSocket]:
    with zmq.Context() as context:
        made = RobotsSocket(context, 1 << 20)
        made.bind("tcp://127.0.0.1:*")
        made.socket.rcvtimeo = int(PATIENCE_S * 1000)
        made.socket.linger = 0
        yield made
        made.close()


def test_messages_come_in_frames_and_answers_go_as_one(robots: RobotsSocket) -> None:
    peer = RawPeer(robots.endpoint)
    peer.send(message([b"header", b"", b"image"]))
    name, *frames = robots.socket.recv_multipart()
    assert frames == [b"header", b"", b"image"]
    assert robots.send(name, [b"one"]) and robots.send(name, [b"header", b"output"])
    assert peer.receive() == [b"one"]
    assert peer.receive() == [b"\xc1" + struct.pack(">I", 6) + b"headeroutput"]
    peer.close()


def test_a_full_queue_is_said_and_an_ended_connection_is_not(robots: RobotsSocket) -> None:
    peer = RawPeer(robots.endpoint, receive_bytes=4096)
    peer.send(message([b"x"]))
    (name, _) = robots.socket.recv_multipart()
    answers = 0
    while robots.send(name, [bytes(100_000)]):
        answers += 1
        assert answers < 10 * UNREAD_ANSWERS, "it reads nothing"
    assert answers >= UNREAD_ANSWERS
    peer.close()
    assert robots.send(b"\0gone", [b"x"])


def test_only_zmtp_3_is_spoken(robots: RobotsSocket) -> None:
    older = RawPeer(robots.endpoint, greet=False)
    older.send(b"\xff" + bytes(8) + b"\x7f" + b"\x01\x05" + b"\0\0" + b"\0\1x")
    end_s = time.monotonic() + PATIENCE_S
    while older.is_open():
        assert time.monotonic() < end_s, "it was not hung up on"
        time.sleep(0.01)
    older.close()
