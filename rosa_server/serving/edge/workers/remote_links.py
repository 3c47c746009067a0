"""The links of workers on other machines: TCP with a key for each life of a worker, and a heartbeat on each.

Both ends send ZMTP's heartbeats, from libzmq's thread: a worker that computes still answers them. The kernel says for
how long nothing has come over a link: after `SILENT_MS` its worker is silent, and after `ENDS_MS` the link ends. That
of a worker that was killed ends at once. The port is watched as that of the robots is: without a key none gets further
than the handshake, and is cut off when it stays silent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import zmq

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_server.serving.base import log
from rosa_server.serving.base.readiness import EVENTS, POLLIN, Readiness
from rosa_server.serving.base.watched_link import ENDS_MS, SILENT_MS, keep_beating
from rosa_server.serving.base.worker_keys import WorkerKeys
from rosa_server.serving.edge.cluster import SharesMemory
from rosa_server.serving.edge.doorman import LOOK_EVERY_S, Doorman
from rosa_server.serving.edge.keyed_port import keyed_port_limits
from rosa_server.serving.edge.robots_socket import HANDSHAKE_MS
from rosa_server.serving.edge.workers.links import BURST, NOBLOCK, Message, WorkerLinks


class RemoteLinks(WorkerLinks):
    """The gateway's end of links that need keys. A connection is a worker's from its `WorkerReady` on."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        readiness: Readiness,
        memory: SharesMemory,
        keys: WorkerKeys,
        max_message_bytes: int,
        count: Callable[[str], None],
    ) -> None:
        """`count`: told the cause with which a connection is cut off."""
        super().__init__(context, readiness, memory)
        self._context, self._keys, self._max_bytes = context, keys, max_message_bytes
        self._doorman = Doorman(keyed_port_limits(), self._gone, count)
        self._connections: dict[str, bytes] = {}  # worker id -> the one over which it has announced itself
        self._ended: list[str] = []
        self._silent: frozenset[str] = frozenset()
        self._next_look_s = float("-inf")
        self._seldom = log.Seldom()

    def listen(self, endpoint: str) -> None:
        self._keys.protect(self.socket)
        keep_beating(self.socket, ENDS_MS)
        self.socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        self.socket.setsockopt(zmq.MAXMSGSIZE, self._max_bytes)
        self._doorman.open(self._context, self.socket, keys=True)
        super().listen(endpoint)
        self._readiness.register(self._doorman.monitor)

    def close(self) -> None:
        self._doorman.close()
        super().close()

    @property
    def monitor(self) -> zmq.Socket[bytes] | None:
        return self._doorman.monitor

    def step(self, now_s: float) -> list[str]:
        """The workers whose link has ended since the last call."""
        self._doorman.take_events(now_s)
        self._doorman.step(now_s)
        ended, self._ended = self._ended, []
        return ended

    def silent(self, now_s: float) -> Collection[str]:
        """The workers whose link holds and of which nothing has come for a while, as this machine's kernel saw it:
        whether this process had time to read it makes no difference."""
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_EVERY_S
            quiet_ms = {name: self._doorman.quiet_ms(own) for name, own in self._connections.items()}
            self._silent = frozenset(name for name, ms in quiet_ms.items() if ms >= SILENT_MS)
        return self._silent

    def received(self, now_s: float) -> Iterator[Message]:
        """Messages of workers whose key is valid, under the name of their key, whatever they call themselves."""
        for _ in range(BURST):
            frames = self.socket.recv_multipart(NOBLOCK, copy=False)
            connection, name = frames[0].bytes, str(frames[0].get("User-Id"))
            if self._connections.get(name) != connection:
                self._doorman.heard(now_s, frames[0], sum(map(len, frames)), len(frames), 0.0, 0.0)
            if not self._keys.valid(name):
                self._doorman.hang_up(connection)
                if self._seldom.due(name):
                    log.warning("worker_refused", worker=name, cause="key_withdrawn")
            elif self._belongs(name, connection, frames[1:]):
                yield name, frames[1:]
            if not int(self.socket.getsockopt(EVENTS)) & POLLIN:
                return

    def _belongs(self, worker_id: str, connection: bytes, frames: Sequence[codec.Frame]) -> bool:
        """Whether a message is to be read: a worker announces itself on each connection before anything else counts. It
        has one of them: the one before ends, and what it has not announced itself on is a stranger's."""
        if self._connections.get(worker_id) == connection:
            return True
        try:
            if codec.read_header(frames)["type"] != "worker_ready":
                return False
        except CodecError:
            return False
        before = self._connections.get(worker_id)
        self._connections[worker_id] = connection
        self._doorman.trust(connection)
        if before is not None:
            self._doorman.hang_up(before)
        return True

    def send_over_socket(self, worker_id: str, frames: Sequence[codec.Frame]) -> None:
        """What is for a worker whose link has ended is lost: its calls go elsewhere."""
        connection = self._connections.get(worker_id)
        if connection is not None:
            self._readiness.used(self._fd)
            self.socket.send_multipart([connection, *frames], copy=False)

    def _gone(self, now_s: float, connection: bytes) -> None:
        for worker_id, own in self._connections.items():
            if own == connection:
                del self._connections[worker_id]
                self._ended.append(worker_id)
                return
