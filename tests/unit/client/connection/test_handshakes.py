"""A robot says why its server does not talk to it, as far as ZeroMQ's handshake tells."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from rosa_client.connection import handshakes
from rosa_client.connection.link import GatewayLink
from rosa_contract.wire import messages as m
from rosa_server.serving.edge.access import ZAP_ENDPOINT, KeyRing, admit, make_keys

HELLO = m.Hello("panda0", "pick", {}, {})
PATIENCE_S = 20.0


class Locked:
    """The gateway's socket with keys, and its answers to ZAP."""

    def __init__(self, keys: Path | None, endpoint: str = "") -> None:
        self.context = zmq.Context()
        self.ring = KeyRing(keys) if keys is not None else None
        self.zap = self.context.socket(zmq.REP)
        self.zap.bind(ZAP_ENDPOINT)
        self.socket = self.context.socket(zmq.ROUTER)
        if self.ring is not None:
            self.ring.protect(self.socket)
        self.socket.bind(endpoint or "tcp://127.0.0.1:*")
        self.endpoint = bytes(self.socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
        self.greeted = 0

    def step(self) -> None:
        if self.zap.poll(1) and self.ring is not None:
            self.zap.send_multipart(admit(self.zap.recv_multipart(), self.ring, None))
        if self.socket.poll(1):
            self.socket.recv_multipart()
            self.greeted += 1

    def until(self, link: GatewayLink, condition: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end_s, f"waited in vain for {what}; the link says: {link.reason}"
            self.step()
            link.poll(0.001, time.monotonic())


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(tmp_path, "panda0")
    return tmp_path


def test_a_robot_whose_key_the_server_lacks_is_told_so_and_let_in_when_it_is_there(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "AGAIN_EVERY_S", 0.2)
    known = keys / "robots" / "panda0.key"
    public = known.read_bytes()
    known.unlink()
    server = Locked(keys)
    link = GatewayLink(server.endpoint, HELLO, str(keys))
    try:
        server.until(link, lambda: "refused this robot's key" in link.reason, "the refusal")
        known.write_bytes(public)
        server.until(link, lambda: server.greeted > 0, "a hello with the key that is known now")
    finally:
        link.close()
        server.context.destroy(0)


def test_a_robot_without_keys_is_told_that_the_server_may_demand_them(keys: Path) -> None:
    server = Locked(keys)
    link = GatewayLink(server.endpoint, HELLO)
    try:
        server.until(link, lambda: "demand" in link.reason, "the reason")
        assert "keys" in link.reason and server.greeted == 0
    finally:
        link.close()
        server.context.destroy(0)


def test_a_robot_with_another_servers_key_is_told_which_file_to_look_at(keys: Path, tmp_path: Path) -> None:
    server = Locked(keys)
    make_keys(tmp_path / "other")
    (keys / "server.key").write_bytes((tmp_path / "other" / "server.key").read_bytes())
    link = GatewayLink(server.endpoint, HELLO, str(keys))
    try:
        server.until(link, lambda: "server.key here may be another server's" in link.reason, "the reason")
    finally:
        link.close()
        server.context.destroy(0)


def test_a_robot_with_keys_before_a_server_without_is_told_so(keys: Path) -> None:
    server = Locked(None)
    link = GatewayLink(server.endpoint, HELLO, str(keys))
    try:
        server.until(link, lambda: "uses no keys" in link.reason, "the reason")
    finally:
        link.close()
        server.context.destroy(0)


@pytest.mark.parametrize("robot_has_keys", [True, False])
def test_a_server_that_comes_back_as_the_robot_expects_it_is_greeted(
    keys: Path, monkeypatch: pytest.MonkeyPatch, robot_has_keys: bool
) -> None:
    monkeypatch.setattr(handshakes, "AGAIN_EVERY_S", 0.2)
    server = Locked(None if robot_has_keys else keys)
    link = GatewayLink(server.endpoint, HELLO, str(keys) if robot_has_keys else "")
    try:
        server.until(link, lambda: "keys" in link.reason, "the reason")
        server.context.destroy(0)
        server = Locked(keys if robot_has_keys else None, server.endpoint)
        server.until(link, lambda: server.greeted > 0, "a hello to the server that came back")
    finally:
        link.close()
        server.context.destroy(0)


def test_with_the_right_keys_nothing_is_complained_about(keys: Path) -> None:
    server = Locked(keys)
    link = GatewayLink(server.endpoint, HELLO, str(keys))
    try:
        server.until(link, lambda: server.greeted > 0, "a hello")
        assert "no answer from a gateway" in link.reason
    finally:
        link.close()
        server.context.destroy(0)
