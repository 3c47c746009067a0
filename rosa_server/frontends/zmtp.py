"""The server's side of ZeroMQ's wire protocol for REQ clients: ZMTP 3.0 with the NULL mechanism (RFC 23).

libzmq's REP and ROUTER bound neither connections nor unread bytes, and do not say whose connection has ended, so that
the call of a client that has gone could not be cancelled. This reads one connection, byte by byte, from an asyncio
stream; whatever a peer sends, it raises nothing but `ZmtpError`, `EOFError` and `OSError`.
"""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

from rosa_contract.errors import CausedError
from rosa_server.frontends.limits import Meter

GREETING = b"\xff" + bytes(8) + b"\x7f" + bytes((3, 0)) + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
MORE, LONG, COMMAND = 1, 2, 4
MAX_COMMAND_BYTES = 1024
MAX_ENVELOPE_FRAMES = 4
MAX_ENVELOPE_BYTES = 512
WHOLE_WITHIN_S = 30.0  # from the first byte of a frame to its last
COMMANDS_PER_S = 20.0  # heartbeats; a peer that sends more waits
COMMANDS_AT_ONCE = 40.0


class ZmtpError(CausedError):
    """A peer does not speak the protocol, or too much of it."""

    CAUSES: ClassVar = {
        "bad_greeting": "it does not speak ZMTP 3 without encryption",
        "wrong_socket": "its socket is neither REQ nor DEALER",
        "bad_frame": "a frame that the protocol does not have here",
        "too_large": "a message above its limit, or one of too many frames",
        "too_slow": "a message that does not come to its end",
    }


def command(name: bytes, body: bytes = b"") -> bytes:
    """A command as a frame."""
    content = bytes((len(name),)) + name + body
    return bytes((COMMAND, len(content))) + content


def metadata(**values: bytes) -> bytes:
    """Properties of a READY command; `_` in a name stands for a hyphen."""
    parts = []
    for key, value in values.items():
        name = key.replace("_", "-").encode()
        parts.append(bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value)
    return b"".join(parts)


def frames(parts: list[bytes]) -> bytes:
    """A message as it travels."""
    wire = []
    for number, part in enumerate(parts):
        more = MORE if number + 1 < len(parts) else 0
        short = len(part) < 256
        size = len(part).to_bytes(1 if short else 8, "big")
        wire += [bytes((more | (0 if short else LONG),)), size, part]
    return b"".join(wire)


def properties(body: bytes) -> dict[bytes, bytes]:
    """What a READY command says. Raises `ZmtpError`."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(body):
        name_end = at + 1 + body[at]
        size = int.from_bytes(body[name_end : name_end + 4], "big")
        end = name_end + 4 + size
        if end > len(body):
            raise ZmtpError("bad_frame", "a READY command ends before its property")
        found[body[at + 1 : name_end].lower()] = body[name_end + 4 : end]
        at = end
    return found


class Peer:
    """One connection, whose stream is at its beginning."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_bytes: int) -> None:
        self._reader, self._writer, self._max_bytes = reader, writer, max_bytes
        self._commands = Meter(COMMANDS_PER_S, COMMANDS_AT_ONCE)

    async def shake_hands(self) -> None:
        """Greet, and tell each other what socket one is."""
        self._writer.write(GREETING)
        theirs = await self._reader.readexactly(12)
        if theirs[0] != 0xFF or theirs[9] != 0x7F or theirs[10] < 3:
            raise ZmtpError("bad_greeting", "the peer does not speak ZMTP 3")
        if (await self._reader.readexactly(52))[:20].rstrip(b"\0") != b"NULL":
            raise ZmtpError("bad_greeting", "the peer wants encryption; this protocol has none")
        self._writer.write(command(b"READY", metadata(Socket_Type=b"REP")))
        flags, body = await self._frame(MAX_COMMAND_BYTES)
        if not flags & COMMAND or not body.startswith(b"\x05READY"):
            raise ZmtpError("bad_frame", "expected a READY command")
        if properties(body[6:]).get(b"socket-type") not in (b"REQ", b"DEALER"):
            raise ZmtpError("wrong_socket", "expected a REQ or DEALER socket")

    async def receive(self) -> tuple[list[bytes], bytes]:
        """(envelope, body) of the next message. Heartbeats in between are answered."""
        parts: list[bytes] = []
        while True:
            # Before the delimiter come names, which are short; then one frame, the body.
            room = self._max_bytes if b"" in parts else MAX_ENVELOPE_BYTES
            flags, content = await self._frame(room)
            if flags & COMMAND:
                if content.startswith(b"\x04PING"):  # a two-byte time to live, and a context to send back
                    self._writer.write(command(b"PONG", content[7:]))
                self._commands.spend(time.monotonic(), 1.0)
                if (wait_s := self._commands.wait_s(time.monotonic())) > 0:
                    await asyncio.sleep(wait_s)
                continue
            parts.append(content)
            if not flags & MORE:
                break
            if b"" in parts[:-1] or len(parts) > MAX_ENVELOPE_FRAMES:
                raise ZmtpError("too_large", "expected an envelope and one frame")
        if b"" not in parts[:-1]:
            raise ZmtpError(
                "bad_frame", "expected an empty frame before the request, as a REQ socket sends it"
            )
        return parts[:-1], parts[-1]

    async def send(self, envelope: list[bytes], body: bytes) -> None:
        """An answer; returns when the peer has room for it."""
        self._writer.write(frames([*envelope, body]))
        await self._writer.drain()

    async def _frame(self, max_bytes: int) -> tuple[int, bytes]:
        flags = (await self._reader.readexactly(1))[0]
        if flags > 7 or (flags & COMMAND and flags & MORE):
            raise ZmtpError("bad_frame", f"flags {flags:#x}")
        try:
            async with asyncio.timeout(WHOLE_WITHIN_S):
                size = int.from_bytes(await self._reader.readexactly(8 if flags & LONG else 1), "big")
                limit = MAX_COMMAND_BYTES if flags & COMMAND else max_bytes
                if size > limit:
                    raise ZmtpError("too_large", f"a frame of {size} bytes; at most {limit} are taken")
                return flags, await self._reader.readexactly(size)
        except TimeoutError:
            raise ZmtpError("too_slow", f"a frame took more than {WHOLE_WITHIN_S:g} s") from None
