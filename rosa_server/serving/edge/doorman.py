"""Watches the connections of the robots' socket from outside, and cuts off whoever takes too much.

libzmq's ROUTER reads whole messages and bounds neither their number of frames nor their bytes before the last frame
has come, nor the answers that a peer does not read. The kernel knows: a socket monitor names the descriptor of every
accepted connection, TCP_INFO its bytes in both directions, and the messages that the gateway reads and writes say how
many of them were delivered. A connection is looked at when epoll says that something came, or when it was answered;
an idle one costs nothing. `core/guard/connections.py` decides. It runs in the gateway's thread, a little at a time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import islice

import zmq

from rosa_server.serving.base import log
from rosa_server.serving.core.guard.connections import Connections
from rosa_server.serving.core.guard.limits import UNREAD, Limits
from rosa_server.serving.core.guard.peers import Close
from rosa_server.serving.edge import kernel_counts

LOOK_EVERY_S = 0.02
# struct linger: the connection is reset when its last descriptor is closed.
DROP_UNSENT = struct.pack("ii", 1, 0)
STEPS_PER_ROUND = 5  # in which every robot, and every peer with unread answers, is looked at once
MAX_LOOKS = 256  # at strangers in one step; the others are next
SAME_LINE_EVERY_S = 1.0  # a flood makes one line per address and cause in this time
FRAME_BYTES = 64  # on the wire beside a frame's content, at most: ZMTP, and CURVE's box
BOX_BYTES = 33  # of a frame in CURVE's box: the command's name, its number, the authenticator and the flags
# Not ACCEPT_FAILED: without a descriptor left libzmq tells that as fast as it can try again.
EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
ACCEPTED, DISCONNECTED = int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_DISCONNECTED)
BROKE_RULES, LEFT = int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL), int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
# Handshakes that fail, by ZeroMQ's number of the broken rule: ..._ZMTP_MECHANISM_MISMATCH and ..._ZMTP_CRYPTOGRAPHIC.
FAILED_FOR = {0x11000002: "no_key", 0x11000001: "wrong_server_key"}
LEFT_EARLY = "no_handshake"  # a peer without a key sees first that this server demands one, and leaves
MAX_EVENTS = 256  # at once; the rest waits for the next look
NUMBERS = 1 << 32  # names that libzmq gives to connections, one after the other


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
class Doorman:
    """`open` before the socket is bound; `step` often; `heard` for every message. `on_end` is told of every ended
    connection that had spoken: the time and its ZeroMQ name; `count` of every one that was cut off, by its cause."""

    limits: Limits
    on_end: Callable[[float, bytes], None]
    count: Callable[[str], None]
    _lines: dict[int, Line] = field(default_factory=dict)  # by key
    _by_fd: dict[int, Line] = field(default_factory=dict)
    _by_identity: dict[bytes, Line] = field(default_factory=dict)
    _next_key: int = 0
    _next_look_s: float = float("-inf")
    _by_end: dict[int, int] = field(default_factory=dict)  # our descriptor -> key
    # Strangers' keys to look at, the longest waiting first.
    _due: dict[int, None] = field(default_factory=dict)
    _next_round: dict[int, None] = field(default_factory=dict)  # of robots, and of peers with unread answers
    _round: list[int] = field(default_factory=list)  # what is left of this round
    _share: int = 0  # of it in one step
    # Whose end was told. What they said before is read until the next step; then nobody speaks for them any more.
    _leaving: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connections = Connections(self.limits)
        self._monitor: zmq.Socket[bytes] | None = None
        self._watched: zmq.Socket[bytes] | None = None
        # Why the handshake failed whose connection ends next: libzmq tells one after the other.
        self._failed = ""
        self._keys = False
        self._often = log.Seldom(every_s=SAME_LINE_EVERY_S)
        self._seldom = log.Seldom()  # a peer without a key tries again every second
        self._epoll = select.epoll() if sys.platform == "linux" else None

    def open(self, context: zmq.Context[zmq.Socket[bytes]], robots: zmq.Socket[bytes], keys: bool) -> None:
        """Watch a socket that is not yet bound. `keys`: it demands them."""
        endpoint = f"inproc://doorman-{id(self)}"
        self._watched = robots
        self._keys = keys
        robots.monitor(endpoint, EVENTS | BROKE_RULES | LEFT)
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
        if self._epoll is not None:
            self._epoll.close()

    def step(self, now_s: float) -> None:
        """Take note of which peers came and went, and look at what the connections hold."""
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + LOOK_EVERY_S
        leaving, self._leaving = self._leaving, []
        for line in leaving:
            self._left(line, now_s)
        self.take_events(now_s)
        self._look_around(now_s)
        self._carry(self.connections.tick(now_s), now_s)

    def heard(
        self, now_s: float, frame: zmq.Frame, size: int, frames: int, spent_s: float, bad: float
    ) -> None:
        """The gateway has handled a message. `frame`: its first one, which names the connection."""
        line = self._line_of(frame, now_s)
        if line is not None:
            wire = size + frames * FRAME_BYTES
            if closes := self.connections.heard(line.key, wire, spent_s, bad, now_s):
                self._carry(closes, now_s)

    def ignores(self, now_s: float, frame: zmq.Frame) -> bool:
        """Whether this message's connection has ended or was cut off: what is still under way from it is not read."""
        line = self._line_of(frame, now_s)
        return line is None or self.connections.is_cut(line.key)

    def answers(self, now_s: float, identity: bytes, size: int) -> bool:
        """Whether an answer of `size` bytes may be sent; it then counts as sent."""
        line = self._by_identity.get(identity)
        if line is None or not line.counted:
            return True
        wire = size + (BOX_BYTES if self._keys else 0) + (2 if size < 256 else 9)
        if not self.connections.has_room(line.key, wire):
            self._look(line.key, now_s)  # it may have read since it was looked at last
        if closes := self.connections.answers(line.key, wire, now_s):
            self._carry(closes, now_s)
        self._next_round[line.key] = None
        return not self.connections.is_cut(line.key)

    def spent(self, now_s: float, identity: bytes, spent_s: float) -> None:
        """What an answer took to make."""
        line = self._by_identity.get(identity)
        if line is not None:
            self._carry(self.connections.spent(line.key, spent_s, now_s), now_s)

    def is_robot(self, identity: bytes) -> bool:
        """Whether a robot is welcomed on this connection."""
        line = self._by_identity.get(identity)
        return line is not None and self.connections.is_robot(line.key)

    def refused(self, now_s: float, identity: bytes, cause: str, reason: str) -> None:
        """A message of this connection was not accepted."""
        line = self._by_identity.get(identity)
        if line is not None:
            fields: dict[str, object] = {"key_of": line.owner} if line.owner else {}
            self._say(now_s, "robot_refused", line.address, cause, {**fields, "reason": reason})

    def overflows(self, now_s: float, identity: bytes) -> None:
        """An answer found no room in the queue of a connection's socket."""
        line = self._by_identity.get(identity)
        if line is not None:
            self._carry(self.connections.overflows(line.key, now_s), now_s)

    def welcomed(self, identity: bytes, robot: str, largest_request: int) -> None:
        line = self._by_identity.get(identity)
        if line is not None:
            self.connections.welcomed(line.key, robot, largest_request)

    def left(self, identity: bytes) -> None:
        line = self._by_identity.get(identity)
        if line is not None:
            self.connections.left(line.key)

    def trust(self, identity: bytes) -> None:
        """This connection is bounded by other means from now on: it is watched for its end alone."""
        line = self._by_identity.get(identity)
        if line is None:
            return
        self._count_no_more(line)
        self.connections.closed(line.key)

    def hang_up(self, identity: bytes) -> None:
        """End a connection. `on_end` is told when that has happened."""
        line = self._by_identity.get(identity)
        if line is not None:
            with contextlib.suppress(OSError):  # it has gone by itself
                line.end.shutdown(socket.SHUT_RDWR)

    def quiet_ms(self, identity: bytes) -> int:
        """For how long nothing has come over a connection to this machine, read or not; 0 where nobody knows."""
        line = self._by_identity.get(identity)
        return 0 if line is None else kernel_counts.quiet_ms(line.end)

    def revoke(self, now_s: float, owners: Collection[str]) -> list[bytes]:
        """Cut off whoever was let in with the key of one of these robots. Returns ZeroMQ's names of them."""
        lines = [line for line in self._by_identity.values() if line.owner in owners]
        for line in lines:
            self._carry(self.connections.revoke(line.key, now_s), now_s)
        return [line.identity for line in lines if line.identity is not None]

    # -- coming and going ------------------------------------------------------------------------------------------

    @property
    def monitor(self) -> zmq.Socket[bytes]:
        """Readable when somebody came or went. With keys it is read at once: a peer without one leaves within 1 ms."""
        assert self._monitor is not None
        return self._monitor

    def take_events(self, now_s: float) -> None:
        """Take note of which peers came and went."""
        for _ in range(MAX_EVENTS):
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
        own = -1
        try:
            own = os.dup(fd)
            end = socket.socket(fileno=own)
        except OSError as error:
            if own >= 0:  # the connection has ended, and its descriptor is that of a file now
                os.close(own)
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
        if self._epoll is not None and counted:
            self._by_end[end.fileno()] = key
            # Also what libzmq has read before this is asked: then it can be written to.
            self._epoll.register(end, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
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
        """Log a handshake that failed, as for want of a key; `KeyRing` logs a wrong one."""
        line = self._by_fd.get(fd)
        address = line.address if line is not None else "unknown: it left too soon"
        self.count(self._failed)
        if self._seldom.due((address, self._failed)):
            log.warning("robot_refused", address=address, cause=self._failed)

    def _ended(self, fd: int, now_s: float) -> None:
        line = self._by_fd.pop(fd, None)
        if line is None:
            return
        self._count_no_more(line)
        line.end.close()
        self._leaving.append(line)

    def _count_no_more(self, line: Line) -> None:
        if self._epoll is not None and self._by_end.pop(line.end.fileno(), None) is not None:
            self._epoll.unregister(line.end)
        line.counted = False

    def _left(self, line: Line, now_s: float) -> None:
        """What it said before its end was read."""
        del self._lines[line.key]
        self.connections.closed(line.key)
        if line.identity is not None:
            del self._by_identity[line.identity]
            self.on_end(now_s, line.identity)

    def _line_of(self, frame: zmq.Frame, now_s: float) -> Line | None:
        """Whose message it is; None where the connection ended before it had said anything."""
        identity = frame.bytes
        line = self._by_identity.get(identity)
        if line is not None:
            return line
        # It is new here, and its descriptor may have been another's until a moment ago.
        self.take_events(now_s)
        try:
            line = self._by_fd.get(int(frame.get(zmq.SRCFD)))
        except zmq.ZMQError:
            return None
        if line is None:
            return None
        if line.identity is not None:  # one of them is that of a connection that had this descriptor before
            if not follows(identity, line.identity):
                return None
            del self._by_identity[line.identity]
            self.on_end(now_s, line.identity)
        line.identity = identity
        self._by_identity[identity] = line
        if self._keys:
            with contextlib.suppress(zmq.ZMQError):
                line.owner = str(frame.get("User-Id"))
        return line

    # -- what they hold --------------------------------------------------------------------------------------------

    def _look_around(self, now_s: float) -> None:
        """Look at those from which something came or to which something was sent."""
        for fd, _ in self._epoll.poll(0, 4 * MAX_EVENTS) if self._epoll is not None else ():
            key = self._by_end.get(fd)
            if key is not None:
                due = self._next_round if self.connections.is_robot(key) else self._due
                due[key] = None
        for key in list(islice(self._due, MAX_LOOKS)):
            del self._due[key]
            self._look(key, now_s)
        if not self._round:
            self._round, self._next_round = list(self._next_round), {}
            self._share = -(-len(self._round) // STEPS_PER_ROUND)
        for key in self._round[-self._share :] if self._share else []:
            self._look(key, now_s)
        del self._round[-self._share :]

    def _look(self, key: int, now_s: float) -> None:
        line = self._lines.get(key)
        if line is None or not line.counted:
            return
        try:
            counted = kernel_counts.counts(line.end)
        except OSError:
            return
        line.counted = counted is not None
        if counted is None:
            return
        taken, read = counted
        if closes := self.connections.received(key, read, now_s):
            self._carry(closes, now_s)
        if self.connections.took(key, taken, now_s):
            self._next_round[key] = None

    # -- cutting off -----------------------------------------------------------------------------------------------

    def _carry(self, closes: list[Close], now_s: float) -> None:
        for close in closes:
            line = self._lines[close.key]
            with contextlib.suppress(OSError):  # it has gone by itself
                if close.cause in UNREAD:  # else its end would wait behind what the peer does not read
                    line.end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DROP_UNSENT)
                line.end.shutdown(socket.SHUT_RDWR)
            self.count(close.cause)
            peer = {"port": close.port, "robot": close.robot or line.owner, "reason": close.reason}
            self._say(now_s, "connection_cut_off", close.address, close.cause, peer)

    def _say(self, now_s: float, event: str, address: str, cause: str, fields: dict[str, object]) -> None:
        if not self._often.due((address, cause or event), now_s):
            return
        more = {"unsaid": self._often.unsaid} if self._often.unsaid else {}
        who = {"address": address, "cause": cause} if cause else {}
        log.warning(event, **who, **fields, **more)


def follows(identity: bytes, other: bytes) -> bool:
    """Whether libzmq gave this name after the other one."""
    ahead = int.from_bytes(identity, "big") - int.from_bytes(other, "big")
    return 0 < ahead % NUMBERS < NUMBERS // 2
