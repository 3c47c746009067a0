"""The links between the gateways of one schedule: to each other one a DEALER, from all of them one ROUTER.

A link carries messages one way, so that each end knows for certain what it speaks with: what connects proves its key
and has the other one's public key, which no other can answer with; what listens reads under the name of the key.
The first message of a connection is a `PeerHello`. One of another schedule ends it, and nothing counts before it.
A gateway is heard while the link to it holds, too: whoever cannot be told anything is as good as gone. Both ends send
ZMTP's heartbeats, and the kernel says for how long nothing has come of a gateway (`silent`), whether this process had
time to read it or not; a link ends much later, as a new one takes longer than a pause of a busy machine.

The port is watched as that of the robots is (`doorman.py`). Messages are bounded in frames and bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import zmq

from rosa_contract.errors import CodecError
from rosa_contract.wire.packing import MAX_ARRAY_BYTES
from rosa_server.plan.peer_codec import MAX_PEER_FRAMES, MAX_PEER_HEADER_BYTES, decode_peer, encode_peer
from rosa_server.plan.peering import Forward, PeerHello, ToDesk, ToPeer
from rosa_server.serving.base import log
from rosa_server.serving.base.peer_keys import PeerKeys
from rosa_server.serving.base.readiness import Readiness
from rosa_server.serving.base.watched_link import ENDS_MS, SILENT_MS, WatchedLink, keep_beating
from rosa_server.serving.edge.doorman import Doorman
from rosa_server.serving.edge.keyed_port import keyed_port_limits
from rosa_server.serving.edge.robots_socket import HANDSHAKE_MS, seed_numbers

UNSENT = 1024  # messages to one gateway that wait for the network; more than it may be given calls at a time
UNREAD = 256  # messages of one gateway that are not read yet, before TCP pushes back
MAX_REPLY_BYTES = 4096  # nothing but ZMTP's commands comes back on a link
SEND_BUFFER_BYTES = 4 << 20
LOOK_EVERY_S = 0.05
BURST = 32  # messages read before somebody else's turn
NOBLOCK, POLLOUT = int(zmq.NOBLOCK), int(zmq.POLLOUT)
OTHER_SCHEDULE = "other_schedule"
HELD_BYTES = 64 << 20  # of a connection whose hello is not read yet: calls may follow it at once

Heard = tuple[str, ToPeer | ToDesk]  # the node, and what its gateway says


@dataclass
class _Line:
    """The link to another gateway."""

    socket: zmq.Socket[bytes]
    watched: WatchedLink
    greets: bool = False  # connected, and hello is not said yet
    up: bool = False


class PeerLinks:
    """The end of one gateway. Raises nothing but `zmq.ZMQError`, from `listen`."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        hello: PeerHello,
        endpoints: Mapping[str, str],
        keys: PeerKeys,
        max_message_bytes: int,
        count: Callable[[str], None],
    ) -> None:
        """`endpoints`: node -> where its gateway listens for the others, of `hello.node` too. `count`: told the cause
        with which a connection is cut off."""
        self.keys = keys
        self._context, self._hello, self._endpoints = context, hello, endpoints
        # A request of a robot, or what a model makes of it, behind a header.
        self._max_bytes = max(max_message_bytes, MAX_ARRAY_BYTES) + MAX_PEER_HEADER_BYTES
        self._router: zmq.Socket[bytes] | None = None
        limits = replace(keyed_port_limits(), stranger_bytes=HELD_BYTES, strangers_bytes=4 * HELD_BYTES)
        self._doorman = Doorman(limits, self._gone, count)
        self._lines: dict[str, _Line] = {}
        self._greeted: dict[
            str, bytes
        ] = {}  # node -> the connection over which its gateway has said hello last
        self._silent: tuple[str, ...] = ()
        self._next_look_s = 0.0
        self._seldom = log.Seldom()

    def listen(self) -> None:
        """Listen for the other gateways, and connect to them; they may come later."""
        seed_numbers()
        router = self._router = self._context.socket(zmq.ROUTER)
        self.keys.protect(router)
        keep_beating(router, ENDS_MS)
        router.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        router.setsockopt(zmq.MAXMSGSIZE, self._max_bytes)
        router.setsockopt(zmq.RCVHWM, UNREAD)
        router.setsockopt(zmq.LINGER, 0)
        self._doorman.open(self._context, router, keys=True)
        router.bind(self._endpoints[self._hello.node])
        # All connections get numbers, whatever they call themselves: see `robots_socket.py`.
        router.setsockopt(zmq.ROUTER_RAW, 1)
        router.setsockopt(zmq.ROUTER_RAW, 0)
        for node, endpoint in self._endpoints.items():
            if node != self._hello.node:
                self._lines[node] = self._line_to(node, endpoint)

    @property
    def _listens(self) -> zmq.Socket[bytes]:
        assert self._router is not None, "listen() comes first"
        return self._router

    def _line_to(self, node: str, endpoint: str) -> _Line:
        socket = self._context.socket(zmq.DEALER)
        watched = WatchedLink(socket, self.keys.towards(node), ENDS_MS)
        socket.setsockopt(zmq.IMMEDIATE, 1)  # queue nothing for a gateway that is not there
        socket.setsockopt(zmq.SNDHWM, UNSENT)
        socket.setsockopt(zmq.SNDBUF, SEND_BUFFER_BYTES)
        socket.setsockopt(zmq.RCVHWM, 1)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_REPLY_BYTES)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(endpoint)
        return _Line(socket, watched)

    def register(self, readiness: Readiness) -> None:
        """Where something may come that `look` or `received` has to do with."""
        readiness.register(self._listens)
        readiness.register(self._doorman.monitor)
        for line in self._lines.values():
            readiness.register(line.watched.monitor)

    def close(self) -> None:
        self._doorman.close()
        if self._router is not None:
            self._router.close()
        for line in self._lines.values():
            line.watched.close()
            line.socket.close()

    # -- which are there-----------------------------------------------------------------------------------------------

    def look(self, now_s: float, at_once: bool = False) -> list[str]:
        """The nodes whose link has ended since the last call. Says hello on those that have come up. `at_once`: a
        monitor has something to read."""
        if now_s < self._next_look_s and not at_once:
            return []
        self._next_look_s = now_s + LOOK_EVERY_S
        self._doorman.take_events(now_s)
        self._doorman.step(now_s)
        quiet_ms = {node: self._doorman.quiet_ms(connection) for node, connection in self._greeted.items()}
        self._silent = tuple(node for node, ms in quiet_ms.items() if ms >= SILENT_MS)
        ended = []
        for node, line in self._lines.items():
            came_up, down = line.watched.came_up(), line.watched.down_s() > 0
            if line.up and (came_up or down):
                line.up = False
                ended.append(node)
            line.greets = (line.greets or came_up) and not down
            # libzmq tells of a connection before its socket has taken note of it, which asking for EVENTS makes it do.
            if line.greets and int(line.socket.getsockopt(zmq.EVENTS)) & POLLOUT:
                line.up = self._put(line, self._hello)
                line.greets = not line.up
        return ended

    def reaches(self, node: str) -> bool:
        """Whether the link to this gateway holds."""
        return self._lines[node].up

    def silent(self) -> tuple[str, ...]:
        """The nodes whose connection holds and of which nothing had come for a while at the last look."""
        return self._silent

    def _gone(self, now_s: float, connection: bytes) -> None:
        for node, own in list(self._greeted.items()):
            if own == connection:
                del self._greeted[node]

    # -- what is said --------------------------------------------------------------------------------------------------

    def send(self, node: str, message: ToPeer | ToDesk) -> bool:
        """Without waiting. False where the link has ended, or the other gateway does not read."""
        line = self._lines[node]
        return line.up and self._put(line, message)

    def _put(self, line: _Line, message: PeerHello | ToPeer | ToDesk) -> bool:
        # Pictures stay where they are; an answer may lie in memory that its worker uses again.
        try:
            line.socket.send_multipart(encode_peer(message), NOBLOCK, copy=not isinstance(message, Forward))
        except zmq.Again:
            return False
        return True

    # -- what is heard -------------------------------------------------------------------------------------------------

    def received(self, now_s: float) -> Iterator[Heard]:
        """What has come. Whoever breaks a rule is cut off, and may connect again."""
        for _ in range(BURST):
            try:
                frames, size = self._take()
            except zmq.Again:
                return
            connection, node = frames[0].bytes, str(frames[0].get("User-Id"))
            if self._greeted.get(node) != connection:
                self._greet(now_s, node, connection, frames, size)
                continue
            try:
                message = decode_peer(self._bounded(frames[1:], size))
            except CodecError as error:
                self._refuse(node, connection, error.cause, str(error))
                continue
            if isinstance(message, PeerHello):
                self._refuse(node, connection, "unexpected_message", "a second hello on one connection")
            else:
                yield node, message

    def _take(self) -> tuple[list[zmq.Frame], int]:
        """The next message and its bytes, without the frames beyond those that one may have. Raises `zmq.Again`."""
        frames = [self._listens.recv(NOBLOCK, copy=False)]
        size = 0
        more = frames[0].more
        while more:
            frame = self._listens.recv(NOBLOCK, copy=False)
            more = frame.more
            size += len(frame)
            if len(frames) <= MAX_PEER_FRAMES + 1:
                frames.append(frame)
        return frames, size

    def _bounded(self, frames: list[zmq.Frame], size: int) -> list[zmq.Frame]:
        if size > self._max_bytes:
            raise CodecError("too_large", f"gateway: expected at most {self._max_bytes} bytes, got {size}")
        return frames

    def _greet(self, now_s: float, node: str, connection: bytes, frames: list[zmq.Frame], size: int) -> None:
        """A connection that has not said hello: it does, or what it says is not read."""
        self._doorman.heard(now_s, frames[0], size, len(frames), 0.0, 0.0)
        try:
            hello = decode_peer(self._bounded(frames[1:], size))
        except CodecError as error:
            self._refuse(node, connection, error.cause, str(error))
            return
        if not isinstance(hello, PeerHello):
            return  # it was sent before the end of the connection before was noticed
        if hello.node != node:
            words = f"its key is that of {node}, it says hello as {hello.node}"
            self._refuse(node, connection, "wrong_key", words)
        elif hello.schedule != self._hello.schedule:
            words = (
                "it was started with another schedule, nodes file, profiles or tasks:"
                f" {hello.schedule[:12]} there, {self._hello.schedule[:12]} here"
            )
            self._refuse(node, connection, OTHER_SCHEDULE, words)
        else:
            before = self._greeted.get(node)
            self._greeted[node] = connection
            self._doorman.trust(connection)
            if before is not None:
                self._doorman.hang_up(before)
            log.event("peer_connected", node=node, life=hello.life)

    def _refuse(self, node: str, connection: bytes, cause: str, words: str) -> None:
        self._doorman.hang_up(connection)
        if self._greeted.get(node) == connection:
            del self._greeted[node]
        if self._seldom.due((node, cause)):
            log.warning("peer_refused", node=node, cause=cause, reason=words)
