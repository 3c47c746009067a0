"""Why a robot's connection does not come about, as far as ZeroMQ's handshake tells (RFC 23, 25 and 27).

A server that demands keys does not talk to a robot without: it hangs up, and nothing but the socket's monitor shows it.
"""

from __future__ import annotations

import itertools
import struct

import zmq

# For these causes libzmq gives up for good. The key may be added meanwhile, or the server may come back with or without
# keys.
GIVEN_UP_FOR = ("refused", "mismatch")
AGAIN_EVERY_S = 2.0
MISMATCH = 0x11000002  # ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH: one side has keys, the other has none
SUCCEEDED, NO_DETAIL, PROTOCOL, AUTH, DISCONNECTED = (
    int(event)
    for event in (
        zmq.EVENT_HANDSHAKE_SUCCEEDED,
        zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL,
        zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL,
        zmq.EVENT_HANDSHAKE_FAILED_AUTH,
        zmq.EVENT_DISCONNECTED,
    )
)
# How much a cause says; a peer that just hung up is the least of it.
RANK = {"": 0, "hung_up": 1, "mismatch": 2, "refused": 3}
WORDS = {
    "refused": {True: "the server refused this robot's key", False: "the server refused this robot"},
    "mismatch": {
        True: "the server uses no keys, this robot does",
        False: "the server demands keys, this robot has none; make some with `rosa keys`",
    },
    "hung_up": {
        True: "the server ended the handshake: server.key here may be another server's",
        False: "no answer: the server may demand keys",
    },
}
_numbers = itertools.count()


class Handshakes:
    """Watches the connections of one socket."""

    def __init__(self, socket: zmq.Socket[bytes], endpoint: str, encrypted: bool) -> None:
        self._socket, self._endpoint, self._encrypted = socket, endpoint, encrypted
        self.cause = ""  # hung_up, mismatch or refused; empty while nothing failed
        self._began = self._ended = False  # a connection; the one that there was
        self._again_s: float | None = None
        name = f"inproc://handshakes-{next(_numbers)}"
        socket.monitor(name, SUCCEEDED | NO_DETAIL | PROTOCOL | AUTH | DISCONNECTED)
        self._monitor: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
        self._monitor.setsockopt(zmq.LINGER, 0)
        self._monitor.connect(name)

    def failure(self, now_s: float) -> str:
        """Why there is no connection, or an empty string. Connects again where libzmq would not."""
        self._read()
        if self.cause in GIVEN_UP_FOR:
            self._connect_again(now_s)
        return f"{WORDS[self.cause][self._encrypted]} ({self._endpoint})" if self.cause else ""

    def news(self) -> tuple[bool, bool]:
        """Whether a connection has come about since this was asked last, and whether there is none any more."""
        self._read()
        began, self._began = self._began, False
        return began, self._ended

    def moved(self, endpoint: str) -> None:
        """The socket connects to another endpoint from now on."""
        self._read()
        self._endpoint, self.cause, self._again_s = endpoint, "", None
        self._began = self._ended = False

    def _read(self) -> None:
        while True:
            try:
                event, address = self._monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if address.rpartition(b":")[2] == self._endpoint.encode().rpartition(b":")[2]:
                self._take(*struct.unpack("=hi", event))

    def close(self) -> None:
        """Before the socket is closed."""
        self._socket.disable_monitor()
        self._monitor.close()

    def _take(self, event: int, value: int) -> None:
        if event in (SUCCEEDED, DISCONNECTED):
            self._began, self._ended = event == SUCCEEDED, event == DISCONNECTED
            self.cause = self.cause if self._ended else ""
            return
        cause = "refused" if event == AUTH else "hung_up"
        if event == PROTOCOL and value == MISMATCH:
            cause = "mismatch"
        # Which end hangs up first is chance, so that the same mistake shows now like this, now like that.
        if RANK[cause] > RANK[self.cause]:
            self.cause = cause

    def _connect_again(self, now_s: float) -> None:
        if self._again_s is None:
            self._again_s = now_s + AGAIN_EVERY_S
        elif now_s >= self._again_s:
            self._again_s = None
            self._socket.disconnect(self._endpoint)
            self._socket.connect(self._endpoint)
