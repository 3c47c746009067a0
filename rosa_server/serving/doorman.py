"""Watches the connections of the robots' socket from outside, and cuts off whoever takes too much.

libzmq's ROUTER reads whole messages and bounds neither their number of frames nor their bytes before the last frame
has come. The kernel knows what came: a socket monitor names the descriptor of every accepted connection, TCP_INFO its
bytes, and the messages that the gateway reads say how many of them were delivered. The decisions are those of
`core/connections.py`. It runs in the gateway's thread, a little at a time.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import zmq

from rosa_server.serving import log
from rosa_server.serving.core.connections import Close, Connections
from rosa_server.serving.core.limits import Limits

LOOK_EVERY_S = 0.02  # at strangers; at robots every LOOKS_PER_ROUND times
LOOKS_PER_ROUND = 5
SAME_LINE_EVERY_S = 1.0  # a flood makes one line per address and cause in this time
FRAME_BYTES = 64  # on the wire beside a frame's content, at most: ZMTP, and CURVE's box
TCP_INFO_BYTES = 136
BYTES_RECEIVED_AT = 128  # tcpi_bytes_received of struct tcp_info, Linux 4.1 and later
# Not ACCEPT_FAILED: without a descriptor left libzmq tells that as fast as it can try again.
EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
ACCEPTED, DISCONNECTED = int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_DISCONNECTED)
BROKE_RULES, LEFT = int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL), int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
# Handshakes that fail, by ZeroMQ's number of the broken rule: ..._ZMTP_MECHANISM_MISMATCH and ..._ZMTP_CRYPTOGRAPHIC.
FAILED_FOR = {0x11000002: "no_key", 0x11000001: "wrong_server_key"}
LEFT_EARLY = "no_handshake"  # who has no key sees first that this server demands one, and leaves
MOST_EVENTS = 256  # at once; the rest waits for the next look


@dataclass(slots=True)
class Line:
    """An accepted connection. `end` is a descriptor of our own: libzmq's may be closed and reused at any time."""

    key: int
    fd: int  # libzmq's
    end: socket.socket
    counted: bool  # whether the kernel counts its bytes
    address: str
    identity: bytes | None = None  # ZeroMQ's name of it, from its first message on
    owner: str = ""  # the robot whose key let it in


@dataclass
class Repeats:
    """Equal log lines of a short time."""

    next_s: float = float("-inf")
    unsaid: int = 0


@dataclass
class Doorman:
    """`open` before the socket is bound; `step` often; `heard` for every message. `on_end` is told of every ended
    connection that had spoken: the time and its ZeroMQ name; `count` of every one that was cut off, by its cause."""

    limits: Limits
    on_end: Callable[[float, bytes], None]
    count: Callable[[str], None]
    _lines: dict[int, Line] = field(default_factory=dict)  # by key
    _by_fd: dict[int, Line] = field(default_factory=dict)
    _by_identity: dict[bytes, Line] = field(default_factory=dict)
    _said: dict[tuple[str, str], Repeats] = field(default_factory=dict)
    _next_key: int = 0
    _next_look_s: float = float("-inf")
    _rest: list[int] = field(default_factory=list)  # robots that this round has not looked at
    _share: int = 0  # of them at once

    def __post_init__(self) -> None:
        self.connections = Connections(self.limits)
        self._monitor: zmq.Socket[bytes] | None = None
        self._watched: zmq.Socket[bytes] | None = None
        # Why the handshake failed whose connection ends next: libzmq tells one after the other.
        self._failed = ""
        self._seldom = log.Seldom()  # who has no key tries again every second

    def open(self, context: zmq.Context[zmq.Socket[bytes]], robots: zmq.Socket[bytes], keys: bool) -> None:
        """Watch a socket that is not yet bound. `keys`: it demands them."""
        endpoint = f"inproc://doorman-{id(self)}"
        self._watched = robots
        robots.monitor(endpoint, EVENTS | BROKE_RULES | LEFT if keys else EVENTS)
        self._monitor = context.socket(zmq.PAIR)
        self._monitor.setsockopt(zmq.LINGER, 0)
        self._monitor.setsockopt(zmq.RCVHWM, 0)  # a full queue of events would stop libzmq's thread
        self._monitor.connect(endpoint)

    def close(self) -> None:
        """Before the watched socket is closed."""
        if self._watched is not None:
            self._watched.disable_monitor()  # or libzmq would wait for somebody to read its events
        if self._monitor is not None:
            self._monitor.close()
        for line in self._lines.values():
            line.end.close()

    def step(self, now_s: float) -> None:
        """Take note of who came and went, and look at what the connections hold."""
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + LOOK_EVERY_S
        self.take_events(now_s)
        for key in self.connections.keys(welcomed=False):
            self._look(key, now_s)
        if not self._rest:
            self._rest = self.connections.keys(welcomed=True)
            self._share = -(-len(self._rest) // LOOKS_PER_ROUND)
        for key in self._rest[-self._share :] if self._share else []:
            self._look(key, now_s)
        del self._rest[-self._share :]
        self._carry(self.connections.tick(now_s), now_s)

    def heard(
        self, now_s: float, frame: zmq.Frame, size: int, frames: int, spent_s: float, bad: float
    ) -> None:
        """The gateway has handled a message. `frame`: its first one, which names the connection."""
        line = self._line_of(frame, now_s)
        if line is not None:
            wire = size + frames * FRAME_BYTES
            self._carry(self.connections.heard(line.key, wire, spent_s, bad, now_s), now_s)

    def ignores(self, now_s: float, frame: zmq.Frame) -> bool:
        """Whether this message's connection has been cut off: what is still under way from it is not read."""
        line = self._line_of(frame, now_s)
        return line is not None and self.connections.is_cut(line.key)

    def welcomed(self, identity: bytes, robot: str, largest_request: int) -> None:
        line = self._by_identity.get(identity)
        if line is not None:
            self.connections.welcomed(line.key, robot, largest_request)

    def left(self, identity: bytes) -> None:
        line = self._by_identity.get(identity)
        if line is not None:
            self.connections.left(line.key)

    def revoke(self, now_s: float, owners: Collection[str]) -> list[bytes]:
        """Cut off whoever was let in with the key of one of these robots. Returns ZeroMQ's names of them."""
        lines = [line for line in self._by_identity.values() if line.owner in owners]
        for line in lines:
            self._carry(self.connections.revoke(line.key, now_s), now_s)
        return [line.identity for line in lines if line.identity is not None]

    # -- who comes and goes ----------------------------------------------------------------------------------------

    @property
    def monitor(self) -> zmq.Socket[bytes]:
        """Readable when somebody came or went. With keys it is read at once: who has none leaves within 1 ms."""
        assert self._monitor is not None
        return self._monitor

    def take_events(self, now_s: float) -> None:
        """Take note of who came and went."""
        for _ in range(MOST_EVENTS):
            try:
                event, _ = self.monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            kind, fd = struct.unpack("=hi", event)
            if kind in (BROKE_RULES, LEFT):  # then `fd` is none but says why
                self._failed = LEFT_EARLY if kind == LEFT else FAILED_FOR.get(fd, LEFT_EARLY)
                continue
            if kind == DISCONNECTED and self._failed:
                self._refused(fd)
            self._failed = ""
            self._ended(fd, now_s)  # also where its end was not told: the descriptor is another's now
            if kind == ACCEPTED:
                self._accept(fd, now_s)

    def _accept(self, fd: int, now_s: float) -> None:
        try:
            end = socket.socket(fileno=socket.dup(fd))
        except OSError as error:
            self._turn_away(fd, error, now_s)
            return
        tcp = end.family in (socket.AF_INET, socket.AF_INET6)
        try:
            address, port = end.getpeername()[:2] if tcp else ("local", 0)
        except OSError:
            end.close()
            return
        counted = tcp and sys.platform == "linux"
        key = self._next_key
        self._next_key += 1
        line = Line(key, fd, end, counted, address)
        self._lines[key] = self._by_fd[fd] = line
        self._carry(self.connections.accepted(key, address, port, now_s), now_s)

    def _turn_away(self, fd: int, error: OSError, now_s: float) -> None:
        """No descriptor is left for watching a connection, so it ends; or it has ended by itself."""
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            return
        with contextlib.suppress(OSError):
            theirs = socket.socket(fileno=fd)
            try:
                theirs.shutdown(socket.SHUT_RDWR)
            finally:
                theirs.detach()  # libzmq closes it
        self.count("too_many_connections")
        self._say(now_s, "no_descriptors_left", "", "", {"reason": str(error)})

    def _refused(self, fd: int) -> None:
        """Log a handshake that failed for want of a key; `KeyRing` logs a wrong one."""
        line = self._by_fd.get(fd)
        address = line.address if line is not None else "unknown: it left too soon"
        if self._seldom.due((address, self._failed)):
            log.warning("robot_refused", address=address, cause=self._failed)

    def _ended(self, fd: int, now_s: float) -> None:
        line = self._by_fd.pop(fd, None)
        if line is None:
            return
        del self._lines[line.key]
        self.connections.closed(line.key)
        line.end.close()
        if line.identity is not None:
            del self._by_identity[line.identity]
            self.on_end(now_s, line.identity)

    def _line_of(self, frame: zmq.Frame, now_s: float) -> Line | None:
        identity = frame.bytes
        line = self._by_identity.get(identity)
        if line is not None:
            return line
        # It is new here, and its descriptor may have been another's until a moment ago.
        self.take_events(now_s)
        line = self._by_fd.get(int(frame.get(zmq.SRCFD)))
        if line is None or line.identity is not None:  # it ended, and its descriptor may be another's
            return None
        line.identity = identity
        with contextlib.suppress(zmq.ZMQError):
            line.owner = str(frame.get("User-Id"))
        self._by_identity[identity] = line
        return line

    # -- what they hold --------------------------------------------------------------------------------------------

    def _look(self, key: int, now_s: float) -> None:
        line = self._lines.get(key)
        if line is None or not line.counted:
            return
        try:
            # What waits in the kernel first: more may come in between, and then it counts as held, not as negative.
            (waiting,) = struct.unpack("i", fcntl.ioctl(line.end, termios.FIONREAD, b"\0\0\0\0"))
            info = line.end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        except OSError:
            return
        if len(info) < TCP_INFO_BYTES:
            line.counted = False
            return
        (received,) = struct.unpack_from("Q", info, BYTES_RECEIVED_AT)
        self._carry(self.connections.received(key, received - waiting, now_s), now_s)

    # -- cutting off -----------------------------------------------------------------------------------------------

    def _carry(self, closes: list[Close], now_s: float) -> None:
        for close in closes:
            line = self._lines[close.key]
            with contextlib.suppress(OSError):  # it has gone by itself
                line.end.shutdown(socket.SHUT_RDWR)
            self.count(close.cause)
            peer = {"port": close.port, "robot": close.robot or line.owner, "reason": close.reason}
            self._say(now_s, "connection_cut_off", close.address, close.cause, peer)

    def _say(self, now_s: float, event: str, address: str, cause: str, fields: dict[str, object]) -> None:
        if len(self._said) > 1000:
            self._said.clear()
        repeats = self._said.setdefault((address, cause or event), Repeats())
        if now_s < repeats.next_s:
            repeats.unsaid += 1
            return
        more = {"unsaid": repeats.unsaid} if repeats.unsaid else {}
        who = {"address": address, "cause": cause} if cause else {}
        log.warning(event, **who, **fields, **more)
        repeats.next_s, repeats.unsaid = now_s + SAME_LINE_EVERY_S, 0
