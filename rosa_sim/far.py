"""A link to workers in the cloud, on one machine: every message between them and their gateway arrives later."""

from __future__ import annotations

import heapq
import threading
import time
from itertools import count

import zmq

TURN_MS = 1


class FarLink:
    """Workers connect to `endpoint` instead of their gateway's; each keeps its identity and the order of its messages.

    Runs in a separate thread until `close`.
    """

    def __init__(self, gateway: str, endpoint: str, link_s: float) -> None:
        """`gateway`: where it listens for workers. `link_s`: one way, and the same back."""
        self._gateway, self._link_s = gateway, link_s
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._front = self._context.socket(zmq.ROUTER)
        self._front.bind(endpoint)
        self._backs: dict[bytes, zmq.Socket[bytes]] = {}
        self._waiting: list[
            tuple[float, int, bytes, bool, list[bytes]]
        ] = []  # due, order, worker, to the gateway
        self._order = count()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="far link")
        self._thread.start()

    def close(self) -> None:
        """End it; what is on its way is lost."""
        self._stop.set()
        self._thread.join(10.0)
        for socket in (self._front, *self._backs.values()):
            socket.close(0)
        self._context.term()

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._front, zmq.POLLIN)
        while not self._stop.is_set():
            for socket, _ in poller.poll(TURN_MS):
                if socket is self._front:
                    worker, *frames = self._front.recv_multipart()
                    if worker not in self._backs:
                        poller.register(self._connect(worker), zmq.POLLIN)
                    self._later(worker, True, frames)
            for worker, back in self._backs.items():
                while int(back.getsockopt(zmq.EVENTS)) & int(zmq.POLLIN):
                    self._later(worker, False, back.recv_multipart())
            now_s = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now_s:
                _, _, worker, up, frames = heapq.heappop(self._waiting)
                if up:
                    self._backs[worker].send_multipart(frames)
                else:
                    self._front.send_multipart([worker, *frames])

    def _connect(self, worker: bytes) -> zmq.Socket[bytes]:
        back = self._context.socket(zmq.DEALER)
        back.setsockopt(zmq.IDENTITY, worker)
        back.connect(self._gateway)
        self._backs[worker] = back
        return back

    def _later(self, worker: bytes, up: bool, frames: list[bytes]) -> None:
        due_s = time.monotonic() + self._link_s
        heapq.heappush(self._waiting, (due_s, next(self._order), worker, up, frames))
