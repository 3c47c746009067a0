"""What hostile clients do beneath messages: headers that never end, fragments, pings, compression, slow reading.

Nothing here is ever a whole request, so no limit on requests sees it.
"""

from __future__ import annotations

import itertools
import socket
import time
import zlib
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

from rosa_server.frontends.zmtp import command, frames
from rosa_server.models.remote.arrays import Dialect, pack
from rosa_sim.hostile.client_attacks import PATIENCE_S, REQ, UPGRADE, Attack, Ports, drained, line, raw

FLOOD_S = 1.0
SLOW_CONNECTIONS = 100
SLOW_S = 3.0
SESSIONS = 20
FIN, RSV1, MASKED = 0x80, 0x40, 0x80
CONTINUATION, BINARY, PING, PONG = 0x0, 0x2, 0x9, 0xA


def ws_frame(opcode: int, payload: bytes = b"", flags: int = FIN) -> bytes:
    """A client's frame; the key of its mask is 0, so that the payload is itself."""
    size = len(payload)
    if size < 126:
        head = bytes((flags | opcode, MASKED | size))
    elif size < 1 << 16:
        head = bytes((flags | opcode, MASKED | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((flags | opcode, MASKED | 127)) + size.to_bytes(8, "big")
    return head + bytes(4) + payload


def upgraded(port: int) -> socket.socket:
    """A bare WebSocket, whose metadata may be half read."""
    one = raw(port)
    one.sendall(UPGRADE)
    said = b""
    while b"\r\n\r\n" not in said:
        if not (more := one.recv(1 << 12)):
            raise ConnectionResetError
        said += more
    return one


def shaken(port: int) -> socket.socket:
    """A bare REQ socket of ZeroMQ."""
    one = raw(port)
    one.sendall(REQ)
    return one


def flooded(one: socket.socket, what: bytes, seconds: float = 0.0) -> None:
    """The same again and again, without reading an answer. `seconds`: default `FLOOD_S`."""
    seconds = seconds or FLOOD_S
    whole = what * max(1, (1 << 16) // len(what))
    one.settimeout(seconds)
    end_s = time.monotonic() + seconds
    with suppress(OSError), one:
        while time.monotonic() < end_s:
            one.sendall(whole)


def slow_handshakes(ports: Ports, observation: Mapping[str, Any]) -> None:
    """Connections that send their headers, or their greeting, a byte at a time."""
    with ExitStack() as closing:
        crowd = []
        for number in range(SLOW_CONNECTIONS):
            with suppress(OSError):
                one = raw(ports["openpi"] if number % 2 else ports["gr00t"])
                crowd.append((closing.enter_context(one), UPGRADE if number % 2 else REQ))
        end_s = time.monotonic() + SLOW_S
        for at in itertools.count():
            for one, said in crowd:
                with suppress(OSError):
                    one.send(said[at % len(said) :][:1])
            if time.monotonic() > end_s:
                return
            time.sleep(0.05)


def endless_headers(ports: Ports, observation: Mapping[str, Any]) -> None:
    """HTTP headers, a request line and a READY command without end."""
    start = UPGRADE.removesuffix(b"\r\n\r\n")
    for said in (start + b"\r\nX-Pad: ", start, b"GET /"):
        with raw(ports["openpi"]) as one:
            one.sendall(said)
            flooded(one, b"\r\nX-Pad: " + b"x" * 4000 if said is start else b"x" * 4096, 0.2)
    with raw(ports["gr00t"]) as other:
        other.sendall(REQ[:64] + b"\x06" + (1 << 40).to_bytes(8, "big"))
        flooded(other, b"x" * 4096, 0.2)


def fragments(ports: Ports, observation: Mapping[str, Any]) -> None:
    """A message of empty fragments that never ends; and envelopes that never do."""
    one = upgraded(ports["openpi"])
    one.sendall(ws_frame(BINARY, b"", 0))
    flooded(one, ws_frame(CONTINUATION, b"", 0))
    flooded(shaken(ports["gr00t"]), b"\x01\x00")


def pings(ports: Ports, observation: Mapping[str, Any]) -> None:
    """Pings and heartbeats as fast as they go, none of whose answers is read."""
    flooded(upgraded(ports["openpi"]), ws_frame(PING, b"x" * 125))
    flooded(shaken(ports["gr00t"]), command(b"PING", b"\0\x0a" + b"x" * 16))


def pongs(ports: Ports, observation: Mapping[str, Any]) -> None:
    """Answers to pings that nobody sent, and commands that do nothing: the smallest frames that there are."""
    flooded(upgraded(ports["openpi"]), ws_frame(PONG))
    flooded(shaken(ports["gr00t"]), b"\x04\x00")


def compressed(ports: Ports, observation: Mapping[str, Any]) -> None:
    """Frames that say that they are compressed, ten megabytes in ten kilobytes, though nobody agreed to it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = packer.compress(bytes(10_000_000)) + packer.flush(zlib.Z_SYNC_FLUSH)
    offer = UPGRADE.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
    with raw(ports["openpi"]) as one:
        one.sendall(offer)
        one.sendall(ws_frame(BINARY, bomb.removesuffix(b"\0\0\xff\xff"), FIN | RSV1))
        drained(one)


def slow_reading(ports: Ports, observation: Mapping[str, Any]) -> None:
    """Ask again and again, and take the answers a byte at a time."""
    request = pack(dict(observation), Dialect.OPENPI)
    asks = pack({"endpoint": "get_modality_config"}, Dialect.NPY)
    with ExitStack() as closing:
        for one, said in (
            (closing.enter_context(upgraded(ports["openpi"])), ws_frame(BINARY, request)),
            (closing.enter_context(shaken(ports["gr00t"])), frames([b"", asks])),
        ):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            one.settimeout(0.01)
            end_s, next_s = time.monotonic() + FLOOD_S, 0.0
            while time.monotonic() < end_s:
                with suppress(TimeoutError):
                    one.send(said)
                if time.monotonic() >= next_s:
                    next_s = time.monotonic() + 0.5
                    with suppress(TimeoutError):
                        one.recv(1)


def many_sessions(ports: Ports, observation: Mapping[str, Any]) -> None:
    """One client that is many: sessions of one connection, connections of one address, each with a whole request."""
    address = "127.3.0.1"
    with ExitStack() as closing:
        lines = [closing.enter_context(line(ports["openpi"], address)) for _ in range(SESSIONS)]
        for number, one in enumerate(lines):
            one.recv(PATIENCE_S)
            told = {**observation, "session_id": f"s{number}", "endpoint": "infer"}
            one.send(pack(told, Dialect.OPENPI))
        for one in lines:
            one.recv(PATIENCE_S)
        for number in range(SESSIONS):
            lines[0].send(pack({"endpoint": "reset", "session_id": f"t{number}"}, Dialect.OPENPI))
            lines[0].recv(PATIENCE_S)


WIRE_ATTACKS: Mapping[str, Attack] = {
    "handshakes of a byte at a time": slow_handshakes,
    "headers without end": endless_headers,
    "fragments without end": fragments,
    "floods of pings that nobody reads the answers to": pings,
    "floods of the smallest frames": pongs,
    "compressed frames": compressed,
    "answers read a byte at a time": slow_reading,
    "many sessions of one client": many_sessions,
}
