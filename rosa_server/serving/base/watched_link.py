"""A worker's end of a link to a gateway on another machine: its keys, its heartbeats, and when it came up and went."""

from __future__ import annotations

import sys
import time

import zmq

from rosa_server.serving.base.worker_keys import WorkerKeyPair

BEAT_MS = 50  # between two heartbeats
SILENT_MS = 200  # without any byte: the other side is not there
# The same after a beat: the connection of a worker ends. libzmq counts what its own thread has read, so a process that
# gets no processor time takes all its peers for silent; a new connection takes longer than most such pauses. A gateway
# asks the kernel which worker is silent, where that can say.
ENDS_MS = 2000 if sys.platform == "linux" else SILENT_MS
RECONNECT_MS, MAX_RECONNECT_MS = 50, 1000
CONNECT_MS = 1000  # of one try: the kernel would wait longer each time while a link is cut
UP, DOWN = int(zmq.EVENT_HANDSHAKE_SUCCEEDED), int(zmq.EVENT_DISCONNECTED)


def keep_beating(socket: zmq.Socket[bytes], ends_ms: int = SILENT_MS) -> None:
    """Send heartbeats on every connection of a socket that is not connected or bound yet. `ends_ms`: without any byte
    after one a connection ends."""
    socket.setsockopt(zmq.HEARTBEAT_IVL, BEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, ends_ms)


class WatchedLink:
    """Of a DEALER socket that is not connected yet."""

    def __init__(self, socket: zmq.Socket[bytes], keys: WorkerKeyPair, ends_ms: int = SILENT_MS) -> None:
        self._socket = socket
        socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
        socket.curve_serverkey = keys.server.encode()
        keep_beating(socket, ends_ms)
        socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
        socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, MAX_RECONNECT_MS)
        self.monitor = socket.get_monitor_socket(UP | DOWN)
        self._down_since_s: float | None = time.monotonic()

    def came_up(self) -> bool:
        """Whether a connection was made since this was asked last, and holds."""
        came = False
        while self.monitor.poll(0):
            # 16 bits of event, and a value. `zmq.utils.monitor` would load asyncio into each worker for them.
            came = int.from_bytes(self.monitor.recv_multipart()[0][:2], sys.byteorder) == UP
            self._down_since_s = None if came else time.monotonic()
        return came

    def down_s(self) -> float:
        """For how long there has been no connection; 0 while there is one."""
        return 0.0 if self._down_since_s is None else time.monotonic() - self._down_since_s

    def close(self) -> None:
        """Before the socket is closed."""
        self._socket.disable_monitor()
        self.monitor.close()
