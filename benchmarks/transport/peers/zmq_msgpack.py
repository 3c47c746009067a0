"""The usual ZeroMQ policy server (as GR00T's): REQ/REP, one msgpack message each way, one request at a time."""

from __future__ import annotations

import numpy as np
import zmq
from openpi_client import msgpack_numpy

from benchmarks.transport.peers import null_policy


def serve(address: str) -> None:
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.bind(address)
        while True:
            seen = msgpack_numpy.unpackb(socket.recv())
            socket.send(msgpack_numpy.packb({"actions": null_policy(seen)}))


class Client:
    def __init__(self, address: str, name: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.linger = 0
        self._socket.connect(address)

    def call(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        self._socket.send(msgpack_numpy.packb(seen))
        actions: np.ndarray = msgpack_numpy.unpackb(self._socket.recv())["actions"]
        return actions

    def close(self) -> None:
        self._socket.close()
        self._context.term()
