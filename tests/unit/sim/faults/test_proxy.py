"""The bad link as a process between real ZeroMQ sockets: robots keep their names, frames their bytes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import zmq

from rosa_sim.faults.link import LinkFault
from rosa_sim.faults.proxy import Proxy, ProxyError, set_fault

SOON_MS = 5000
NEVER_MS = 300


class Wire:
    """A gateway, a proxy in a thread, and as many robots as wanted."""

    def __init__(self, context: zmq.Context[Any]) -> None:
        self.context = context
        self.gateway = context.socket(zmq.ROUTER)
        port = self.gateway.bind_to_random_port("tcp://127.0.0.1")
        self.proxy = Proxy(context, "tcp://127.0.0.1:*", f"tcp://127.0.0.1:{port}", "tcp://127.0.0.1:*")
        self.control = self.proxy.control_endpoint()
        self.robots: list[zmq.Socket[bytes]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def robot(self, name: bytes = b"") -> zmq.Socket[bytes]:
        robot = self.context.socket(zmq.DEALER)
        if name:
            robot.setsockopt(zmq.IDENTITY, name)
        robot.connect(self.proxy.endpoint())
        self.robots.append(robot)
        return robot

    def at_gateway(self, timeout_ms: int = SOON_MS) -> list[bytes] | None:
        return self.gateway.recv_multipart() if self.gateway.poll(timeout_ms) else None

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.proxy.close()
        for socket in (self.gateway, *self.robots):
            socket.close(linger=0)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.proxy.step(0.02)


@contextmanager
def wired() -> Iterator[Wire]:
    with zmq.Context() as context:
        wire = Wire(context)
        try:
            yield wire
        finally:
            wire.close()


def test_frames_pass_unchanged_and_the_gateway_sees_the_robots_own_name() -> None:
    frames = [b"header", b"", bytes(range(256)) * 300]
    with wired() as wire:
        robot = wire.robot(b"panda0")
        robot.send_multipart(frames)
        assert wire.at_gateway() == [b"panda0", *frames]
        wire.gateway.send_multipart([b"panda0", b"answer", b"\x00\x01"])
        assert robot.poll(SOON_MS)
        assert robot.recv_multipart() == [b"answer", b"\x00\x01"]


def test_nameless_robots_are_told_apart() -> None:
    with wired() as wire:
        robots = [wire.robot(), wire.robot()]
        for number, robot in enumerate(robots):
            robot.send_multipart([b"hello %d" % number])
        for _ in robots:
            message = wire.at_gateway()
            assert message is not None
            name, text = message
            wire.gateway.send_multipart([name, b"to " + text])
        for number, robot in enumerate(robots):
            assert robot.poll(SOON_MS)
            assert robot.recv_multipart() == [b"to hello %d" % number]


def test_a_partition_cuts_one_way_until_it_is_lifted() -> None:
    with wired() as wire:
        robot = wire.robot(b"panda0")
        robot.send(b"before")
        assert wire.at_gateway() == [b"panda0", b"before"]
        set_fault(wire.control, LinkFault("partition_up"))
        robot.send(b"lost")
        wire.gateway.send_multipart([b"panda0", b"the other way"])
        assert robot.poll(SOON_MS)
        assert robot.recv() == b"the other way"
        assert wire.at_gateway(NEVER_MS) is None
        set_fault(wire.control, LinkFault())
        robot.send(b"after")
        assert wire.at_gateway() == [b"panda0", b"after"]
        assert set_fault(wire.control, None)["counts"]["dropped"] == 1


def test_a_gateway_that_starts_later_is_reached() -> None:
    with tempfile.TemporaryDirectory(prefix="rosa-") as folder, zmq.Context() as context:
        # The path of a socket may have 107 characters; that of `tmp_path` may be longer.
        endpoint = f"ipc://{folder}/gateway"
        proxy = Proxy(context, "tcp://127.0.0.1:*", endpoint, "tcp://127.0.0.1:*")
        robot, gateway = context.socket(zmq.DEALER), context.socket(zmq.ROUTER)
        try:
            robot.connect(proxy.endpoint())
            robot.send(b"hello")
            proxy.step(1.0)
            gateway.bind(endpoint)
            assert gateway.poll(SOON_MS)
            assert gateway.recv_multipart()[1:] == [b"hello"]
        finally:
            proxy.close()
            robot.close(linger=0)
            gateway.close(linger=0)


def test_an_order_that_makes_no_sense_changes_nothing_and_says_why() -> None:
    with wired() as wire:
        with wire.context.socket(zmq.REQ) as socket:
            socket.connect(wire.control)
            for order, named in (
                (b"{", "Expecting"),
                (b"[]", "object"),
                (b'{"kind": "dorp"}', "kind"),
                (b'{"x": 1}', "x"),
            ):
                socket.send(order)
                assert socket.poll(SOON_MS)
                answer = socket.recv_json()
                assert not answer["ok"]
                assert named in answer["reason"]
        assert set_fault(wire.control, None)["fault"]["kind"] == "none"


def test_faults_are_ordered_from_this_machine_only() -> None:
    with zmq.Context() as context, pytest.raises(ProxyError, match="loopback"):
        Proxy(context, "tcp://127.0.0.1:*", "tcp://127.0.0.1:1", "tcp://0.0.0.0:5581")


def test_a_taken_address_is_an_error_in_words() -> None:
    with wired() as wire:
        command = [sys.executable, "-m", "rosa_sim.faults.proxy", "--listen", wire.proxy.endpoint()]
        command += ["--gateway", "tcp://127.0.0.1:1", "--control", "tcp://127.0.0.1:*"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2
    assert "cannot listen on" in ended.stderr
    assert "Traceback" not in ended.stderr
