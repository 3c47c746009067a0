"""The doorman on a real socket: a connection that takes over an ended one's descriptor is a new one."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from rosa_server.serving.core.guard.limits import Limits
from rosa_server.serving.edge.doorman import Doorman, follows
from rosa_sim.fuzz.wire import RawPeer, message

PATIENCE_S = 20.0
PEER = """
import sys, zmq
socket = zmq.Context().socket(zmq.DEALER)
socket.linger, socket.reconnect_ivl = 0, -1
socket.connect(sys.argv[1])
socket.send(b"hello")
sys.stdin.read()
"""


class Door:
    """A ROUTER on loopback, and who watches it."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.ended: list[bytes] = []
        self.cut: list[str] = []
        self.doorman = Doorman(Limits(), lambda now_s, name: self.ended.append(name), self.cut.append)
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.doorman.open(self.context, self.socket, keys=False)
        self.endpoint = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"

    def read(self) -> zmq.Frame:
        """The first frame of the next message: it names the connection."""
        assert self.socket.poll(PATIENCE_S * 1000)
        return self.socket.recv_multipart(copy=False)[0]

    def close(self) -> None:
        self.doorman.close()
        self.context.destroy(linger=0)


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    with contextlib.closing(made):
        yield made


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, "did not happen in time"
        time.sleep(0.01)


@contextlib.contextmanager
def lowest_free(fd: int) -> Iterator[None]:
    """Descriptors below `fd` that this process has closed meanwhile are taken, so that the next one is `fd`."""
    with contextlib.ExitStack() as taken:
        while (hole := os.open(os.devnull, os.O_RDONLY)) < fd:
            taken.callback(os.close, hole)
        os.close(hole)
        yield


@contextlib.contextmanager
def peer(door: Door) -> Iterator[None]:
    """A process that says one thing. In this process its own descriptor would take the free one."""
    process = subprocess.Popen([sys.executable, "-c", PEER, door.endpoint], stdin=subprocess.PIPE)
    try:
        yield
    finally:
        process.communicate(timeout=PATIENCE_S)


def test_who_takes_over_the_descriptor_of_one_that_was_cut_off_is_heard(door: Door) -> None:
    doorman = door.doorman
    with peer(door):
        frame = door.read()
        fd = int(frame.get(zmq.SRCFD))
        assert not doorman.ignores(0.0, frame)
        doorman.heard(0.0, frame, 1, 1, 0.0, bad=1e9)
        assert door.cut == ["bad_messages"]
        assert doorman.ignores(0.0, frame)
        # It has ended; the doorman has not looked yet.
        until(lambda: not Path(f"/proc/self/fd/{fd}").exists())
    with peer(door), lowest_free(fd):
        other = door.read()
        assert int(other.get(zmq.SRCFD)) == fd, "the lowest free descriptor"
        assert not doorman.ignores(0.0, other), "another connection has that descriptor now"
        doorman.step(1.0)
        assert door.ended == [frame.bytes]
        doorman.heard(5.0, other, 1, 1, 0.0, bad=0.0)
        assert doorman.connections.tick(Limits().hello_within_s + 1.0) == [], "it was heard"


def test_a_cut_off_connection_that_never_spoke_does_not_silence_the_next_one(door: Door) -> None:
    doorman = door.doorman
    with peer(door):
        fd = int(door.read().get(zmq.SRCFD))
        doorman.take_events(0.0)
        doorman.step(Limits().hello_within_s + 1.0)
        assert door.cut == ["no_hello"]
        until(lambda: not Path(f"/proc/self/fd/{fd}").exists())
    with peer(door), lowest_free(fd):
        other = door.read()
        assert int(other.get(zmq.SRCFD)) == fd, "the lowest free descriptor"
        assert not doorman.ignores(20.0, other)


def test_a_message_of_one_that_has_gone_is_not_that_of_the_next_with_its_descriptor(door: Door) -> None:
    doorman = door.doorman
    with peer(door):
        gone = door.read()  # read before it went; the doorman hears of it only afterwards
        fd = int(gone.get(zmq.SRCFD))
    until(lambda: not Path(f"/proc/self/fd/{fd}").exists())
    with peer(door), lowest_free(fd):
        other = door.read()
        assert int(other.get(zmq.SRCFD)) == fd, "the lowest free descriptor"
        doorman.ignores(0.0, gone)  # takes the descriptor for its own
        assert not doorman.ignores(0.0, other), "the newer name is that of the connection that is there"
        assert door.ended == [gone.bytes]
        assert doorman.ignores(0.0, gone), "it has ended"
        doorman.welcomed(other.bytes, "r1", 1000)
        assert doorman.is_robot(other.bytes) and not doorman.is_robot(gone.bytes)


def test_names_are_compared_beyond_the_last_number() -> None:
    assert follows(b"\0\0\0\0\1", b"\0\xff\xff\xff\xff")
    assert not follows(b"\0\xff\xff\xff\xff", b"\0\0\0\0\1")
    assert not follows(b"\0\0\0\0\1", b"\0\0\0\0\1")


def test_what_is_not_read_is_counted_until_it_is(door: Door) -> None:
    doorman = door.doorman
    reader = RawPeer(door.endpoint, receive_bytes=4096)
    reader.send(message([b"x"]))
    frame = door.read()
    assert not doorman.ignores(0.0, frame)
    doorman.welcomed(frame.bytes, "r1", 1000)
    given = 0
    for _ in range(20):  # more than the kernels take
        if doorman.answers(0.0, frame.bytes, 100_000):
            door.socket.send_multipart([frame.bytes, bytes(100_000)])
            given += 1
    assert given == 20 and doorman.connections.unread_bytes == 20 * 100_009
    now_s = 0.0

    def unread() -> int:
        nonlocal now_s
        now_s += 0.05
        doorman.step(now_s)
        return doorman.connections.unread_bytes

    until(lambda: unread() < 20 * 100_009)
    assert doorman.connections.unread_bytes > 0, "the peer's kernel has taken some"
    for _ in range(20):
        reader.receive()
    until(lambda: unread() == 0)
    assert door.cut == []
    reader.close()


def test_no_descriptor_is_lost_where_one_of_a_connection_that_has_gone_is_a_files_now(
    door: Door, tmp_path: Path
) -> None:
    """A peer that comes and goes at once is told of when its descriptor may be that of what was opened meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as listener, (tmp_path / "file").open("wb") as file:
        peer = socket.create_connection(listener.getsockname())
        accepted = listener.accept()[0]
        number = accepted.fileno()
        peer.close()
        accepted.close()
        os.dup2(file.fileno(), number)
        try:
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(10):
                door.doorman._accept(number, 0.0)
            assert len(os.listdir("/proc/self/fd")) == before
            assert not len(door.doorman.connections) and not door.cut
        finally:
            os.close(number)
