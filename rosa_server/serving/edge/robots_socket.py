"""The ROUTER that robots connect to. It gives every connection its name itself, and sends each answer as one frame.

libzmq's ROUTER takes a name that a peer brings along (`ZMQ_IDENTITY`), and calls the others 0x00 and a number that
counts up. It does not keep the two apart: when the number reaches a name that a peer has brought, libzmq ends the
process (`Assertion failed: ok (src/socket_base.cpp:2113)`). A socket with `ZMQ_ROUTER_RAW` numbers all its peers and
reads no name, but one that is bound with it does not speak ZMTP either. The option of the *listener* is the one that
held at `bind`, that of the *socket* is the one that holds now: set after `bind`, the peers speak ZMTP and are all
numbered, and what they call themselves is dropped unread (libzmq 4.3.5: `router_t::identify_peer`, `router_t::xrecv`).
Such a socket clears the MORE flag of what it sends, so that an answer is one frame (`codec.joined`).

A number comes again after 2^32 handshakes; `Limits.successors` ends a connection long before.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

import zmq

from rosa_contract.wire.codec import Frame, joined
from rosa_server.serving.edge.access import ZAP_DOMAIN, KeyRing

ROBOT_BACKLOG = 4  # messages per robot that ZeroMQ holds before TCP pushes back
UNREAD_ANSWERS = 256  # per robot, beside what TCP holds; `Limits` bounds their bytes
SEND_BUFFER_BYTES = 256 << 10  # of a connection, in the kernel, which would take megabytes; answers are small
HANDSHAKE_MS = 5000  # ZMTP's greeting and, with keys, CURVE
LISTEN_BACKLOG = 1024  # a fleet that connects at once
LINGER_MS = 500
NOBLOCK, MORE = int(zmq.NOBLOCK), int(zmq.SNDMORE | zmq.NOBLOCK)  # pyzmq's enums are slow to join


class RobotsSocket:
    """`bind` before anything else is done with it."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], max_bytes: int, keys: KeyRing | None = None
    ) -> None:
        """`max_bytes`: of a message."""
        seed_numbers()
        self.socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
        # With a domain libzmq speaks ZMTP 3 alone. Messages of earlier versions do not say whose they are.
        self.socket.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
        if keys is not None:  # before the first robot can connect
            keys.protect(self.socket)
        self.socket.setsockopt(zmq.RCVHWM, ROBOT_BACKLOG)
        self.socket.setsockopt(zmq.SNDHWM, UNREAD_ANSWERS)
        self.socket.setsockopt(zmq.SNDBUF, SEND_BUFFER_BYTES)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # say when a queue is full
        self.socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        self.socket.setsockopt(zmq.BACKLOG, LISTEN_BACKLOG)
        # A frame above the limit is still read, up to twice over, so that its sender can be told why (unless the
        # doorman is earlier: a robot that holds more than its models take is cut off, and the log says so).
        self.socket.setsockopt(zmq.MAXMSGSIZE, 2 * max_bytes)
        self.socket.setsockopt(zmq.LINGER, LINGER_MS)

    def bind(self, endpoint: str) -> None:
        """Listen. Raises `zmq.ZMQError`."""
        self.socket.bind(endpoint)
        self.socket.setsockopt(zmq.ROUTER_RAW, 1)
        self.socket.setsockopt(
            zmq.ROUTER_RAW, 0
        )  # an empty answer does not end the connection; the rest stays

    @property
    def endpoint(self) -> str:
        """Where robots connect; the real port where a wildcard was bound."""
        return bytes(self.socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()

    def send(self, connection: bytes, frames: Sequence[Frame]) -> bool:
        """One message; it is lost where the connection has ended. False where its queue is full."""
        try:
            self.socket.send(connection, MORE)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return True
        self.socket.send(joined(frames), NOBLOCK)
        return True

    def close(self) -> None:
        self.socket.close()


def seed_numbers() -> None:
    """libzmq's numbers begin at `rand()`, which is the same in every process that does not seed it."""
    seed = getattr(ctypes.CDLL(None), "srand", None)
    if seed is not None:
        seed(int.from_bytes(os.urandom(4), "little"))
