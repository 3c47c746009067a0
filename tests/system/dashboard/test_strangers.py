"""Whoever reaches the dashboard's port without a token takes it from nobody, whatever they leave unsaid or unread."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.system.dashboard.page import dashboard
from tests.system.server_harness import PATIENCE_S

CROWD = 300  # more than uvicorn takes at once
SAYS = {
    "nothing": b"",
    "half a request": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ",
    "a request, and half of another": b"GET /page/nothing.js HTTP/1.1\r\nHost: HOST\r\n\r\nGET / HTTP/1.1\r\n",
    "a body that does not come": b"POST /api/decide HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4000\r\n\r\n{",
}


def connected(address: str) -> socket.socket:
    host = urlsplit(address)
    assert host.hostname is not None
    return socket.create_connection((host.hostname, host.port or 80), PATIENCE_S)


def stream(address: str, token: str) -> socket.socket:
    """A page that is open; its first event has come."""
    page = connected(address)
    host = urlsplit(address).netloc
    page.sendall(
        f"GET /api/stream HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    begin = b""
    while b"data: " not in begin:
        part = page.recv(4096)
        assert part, begin
        begin += part
    assert begin.startswith(b"HTTP/1.1 200"), begin
    return page


@pytest.mark.parametrize("what", SAYS)
def test_a_crowd_of_strangers_keeps_nobody_out(tmp_path: Path, what: str) -> None:
    with ExitStack() as stack, dashboard(f"ipc://{tmp_path}/nobody", tmp_path) as (address, token):
        page = stack.enter_context(stream(address, token))
        for _ in range(CROWD):
            stranger = stack.enter_context(connected(address))
            stranger.sendall(SAYS[what].replace(b"HOST", urlsplit(address).netloc.encode()))
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            assert answer.status == 200
        with stream(address, token):
            page.settimeout(PATIENCE_S)
            assert page.recv(1), "the page that was open is told what happens, still"
