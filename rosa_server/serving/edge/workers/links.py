"""How messages reach the workers and come back: one ROUTER socket, and memory shared with those on this machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import zmq

from rosa_contract.wire import codec
from rosa_server.serving.base.readiness import EVENTS, POLLIN, Readiness
from rosa_server.serving.base.shared_memory import ShmWriter
from rosa_server.serving.core.workers.worker_state import CREDITS
from rosa_server.serving.edge.cluster import SharesMemory

NOBLOCK = int(zmq.NOBLOCK)  # pyzmq's enums are slow to combine
BURST = 32  # messages read from one socket before the next one's turn
Message = tuple[str, Sequence[codec.Frame]]  # worker id, frames


class WorkerLinks:
    """The gateway's end of every worker's link."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], readiness: Readiness, memory: SharesMemory
    ) -> None:
        """`readiness` is told which sockets and descriptors to wait for."""
        self.socket = context.socket(zmq.ROUTER)
        self._readiness, self._memory = readiness, memory
        self._shm: dict[str, ShmWriter] = {}  # by worker id
        self._ids: dict[int, str] = {}  # by descriptor

    def listen(self, endpoint: str) -> None:
        """Raises `zmq.ZMQError` where it cannot."""
        self.socket.setsockopt(zmq.SNDHWM, 0)  # bounded by the workers' credits
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.LINGER, 500)
        self.socket.bind(endpoint)
        self._fd = self._readiness.register(self.socket, asked_always=False)

    def close(self) -> None:
        self.socket.close()

    def send(
        self, worker_id: str, frames: Sequence[codec.Frame], buffer: int = 0, buffers: int = CREDITS
    ) -> None:
        """`buffer`: where large frames may lie in the memory that it shares; small ones are sent."""
        shm = self._shm.get(worker_id)
        if shm is None or not shm.send(buffer, frames, buffers):
            self.send_over_socket(worker_id, frames)

    def send_over_socket(self, worker_id: str, frames: Sequence[codec.Frame]) -> None:
        self._readiness.used(self._fd)
        self.socket.send_multipart([worker_id.encode(), *frames], copy=False)

    @property
    def endpoint(self) -> str:
        """Where workers connect; the real port where a wildcard was bound."""
        return bytes(self.socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()

    @property
    def monitor(self) -> zmq.Socket[bytes] | None:
        """Readable when `step` has something to do."""
        return None

    def step(self, now_s: float) -> list[str]:
        """The workers whose link has ended since the last call; that of a local one ends with it."""
        return []

    def silent(self, now_s: float) -> Collection[str]:
        """The workers whose link holds and of which nothing comes; a local one may be as slow as it likes."""
        return ()

    def received(self, now_s: float) -> Iterator[Message]:
        """What has come over the socket, which the poller has found readable."""
        for _ in range(BURST):
            frames = self.socket.recv_multipart(NOBLOCK, copy=False)
            yield frames[0].bytes.decode(errors="replace"), frames[1:]
            if not int(self.socket.getsockopt(EVENTS)) & POLLIN:
                return

    def owner(self, fd: int) -> str:
        """The worker whose shared memory has this descriptor."""
        return self._ids[fd]

    def shared(self, worker_id: str) -> Sequence[codec.Frame] | None:
        """The next message of a worker that shares memory, or None.

        Raises `EOFError` when the worker has ended, `CodecError` for frames that cannot be read.
        """
        return self._shm[worker_id].receive()

    def open_shared(self, worker_id: str) -> None:
        """A worker is ready: use the memory shared with it, where there is such."""
        shm = self._memory.shm(worker_id)
        if shm is not None:
            fd = shm.socket.fileno()
            self._shm[worker_id], self._ids[fd] = shm, worker_id
            self._readiness.register(fd)

    def close_shared(self, worker_id: str) -> None:
        shm = self._shm.pop(worker_id, None)
        if shm is not None:
            fd = shm.socket.fileno()
            del self._ids[fd]
            self._readiness.unregister(fd)
