"""One connection of ZMTP 3 from the server's side: what a peer may send, and nothing that it sends breaks it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.frontends import zmtp
from rosa_server.frontends.zmtp import GREETING, Peer, ZmtpError, command, frames, metadata

READY = command(b"READY", metadata(Socket_Type=b"REQ", Identity=b""))


class Writer:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None: ...


def run(data: bytes, messages: int = 1) -> tuple[list[Any], bytes]:
    """What is received from a peer that says `data` and leaves, and what it was told."""

    async def talk() -> tuple[list[Any], bytes]:
        reader, writer = asyncio.StreamReader(), Writer()
        reader.feed_data(data)
        reader.feed_eof()
        peer = Peer(reader, cast(asyncio.StreamWriter, writer), 100_000)
        await peer.shake_hands()
        return [await peer.receive() for _ in range(messages)], writer.data

    return asyncio.run(talk())


def test_messages_come_with_their_envelope_whatever_their_size() -> None:
    said = GREETING + READY + frames([b"", b"x"]) + frames([b"name", b"", b"y" * 70_000])
    messages, told = run(said, 2)
    assert messages == [([b""], b"x"), ([b"name", b""], b"y" * 70_000)]
    assert told.startswith(GREETING) and b"Socket-Type" in told


def test_a_heartbeat_is_answered() -> None:
    said = GREETING + READY + command(b"PING", b"\0\x0acontext") + frames([b"", b"x"])
    messages, told = run(said)
    assert messages == [([b""], b"x")] and told.endswith(command(b"PONG", b"context"))


def test_heartbeats_without_end_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(delay_s: float) -> None:
        waits.append(delay_s)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(zmtp, "COMMANDS_PER_S", 1e-6)
    heartbeats = command(b"PING", b"\0\x0a") * (int(zmtp.COMMANDS_AT_ONCE) + 3)
    assert run(GREETING + READY + heartbeats + frames([b"", b"x"]))[0] == [([b""], b"x")]
    assert len(waits) == 3


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(64), "bad_greeting"),
        (GREETING.replace(b"NULL\0", b"CURVE") + READY, "bad_greeting"),
        (GREETING + command(b"READY", metadata(Socket_Type=b"SUB")), "wrong_socket"),
        (GREETING + frames([b"", b"x"]), "bad_frame"),
        (GREETING + command(b"READY", b"\xffx"), "bad_frame"),
        (GREETING + READY + b"\xff\x01x", "bad_frame"),
        (GREETING + READY + frames([b"no delimiter"]), "bad_frame"),
        (GREETING + READY + frames([b"", b"x", b"y"]), "too_large"),
        (GREETING + READY + frames([b"a"] * 100), "too_large"),
        (GREETING + READY + frames([b"", b"x" * 100_001]), "too_large"),
        (GREETING + READY + frames([b"e" * 600, b"", b"x"]), "too_large"),
        (GREETING + READY + b"\x02" + b"\xff" * 8, "too_large"),
    ],
)
def test_what_the_protocol_does_not_have_is_refused_with_its_cause(said: bytes, cause: str) -> None:
    with pytest.raises(ZmtpError) as error:
        run(said)
    assert error.value.cause == cause


@given(st.binary(max_size=100), st.integers(0, 400))
@settings(max_examples=200)
def test_damaged_streams_raise_nothing_else(noise: bytes, at: int) -> None:
    whole = GREETING + READY + frames([b"", b"request" * 20])
    at %= len(whole)
    for said in (noise, whole[:at], whole[:at] + noise + whole[at + len(noise) :]):
        try:
            run(said)
        except (ZmtpError, EOFError):
            continue
