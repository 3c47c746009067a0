"""A worker's end of a link to a gateway on another machine: its keys, its heartbeats, and when it came up and went."""

from __future__ import annotations

import time

import zmq
from zmq.utils.monitor import parse_monitor_message

from rosa_server.serving.base.worker_keys import WorkerKeyPair

BEAT_MS = 50  # between two heartbeats
SILENT_MS = 200  # without any byte after one: the link has ended
RECONNECT_MS, MAX_RECONNECT_MS = 50, 1000
UP, DOWN = int(zmq.EVENT_HANDSHAKE_SUCCEEDED), int(zmq.EVENT_DISCONNECTED)


def keep_beating(socket: zmq.Socket[bytes]) -> None:
    """Send heartbeats on every connection of a socket that is not connected or bound yet."""
    socket.setsockopt(zmq.HEARTBEAT_IVL, BEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, SILENT_MS)


class WatchedLink:
    """Of a DEALER socket that is not connected yet."""

    def __init__(self, socket: zmq.Socket[bytes], keys: WorkerKeyPair) -> None:
        self._socket = socket
        socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
        socket.curve_serverkey = keys.server.encode()
        keep_beating(socket)
        socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, MAX_RECONNECT_MS)
        self.monitor = socket.get_monitor_socket(UP | DOWN)
        self._down_since_s: float | None = time.monotonic()

    def came_up(self) -> bool:
        """Whether a connection was made since this was asked last, and holds."""
        came = False
        while self.monitor.poll(0):
            event = parse_monitor_message(self.monitor.recv_multipart())["event"]
            came = event == UP
            self._down_since_s = None if came else time.monotonic()
        return came

    def down_s(self) -> float:
        """For how long there has been no connection; 0 while there is one."""
        return 0.0 if self._down_since_s is None else time.monotonic() - self._down_since_s

    def close(self) -> None:
        """Before the socket is closed."""
        self._socket.disable_monitor()
        self.monitor.close()
