"""GR00T's wire (N1.7's dialect): ZeroMQ REQ/REP, one msgpack map each way, one request at a time."""

from __future__ import annotations

import sys

import numpy as np
import zmq

from benchmarks.frontends.peers import CAMERAS, PATIENCE_S, NoAnswer, one_by_one
from rosa_server.models.remote.arrays import Dialect, pack, unpack


def observation(seen: dict[str, np.ndarray]) -> dict[str, object]:
    """As N1.7 sends it: a batch of one, of one step."""
    return {
        "video": {camera: seen[camera][None, None] for camera in CAMERAS},
        "state": {"state": seen["state"][None, None]},
        "language": {"annotation.task": [["pick"]]},
    }


def serve(address: str) -> None:
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.bind(address)
        while True:
            request, _ = unpack(socket.recv())
            told = request["data"]["observation"]
            seen = {camera: told["video"][camera][0, 0] for camera in CAMERAS}
            actions = {"actions": one_by_one(seen)[None]}
            socket.send(pack([actions, {}], Dialect.ND))


class Client:
    def __init__(self, address: str) -> None:
        self._context, self._address = zmq.Context(), address
        self._socket = self._connected()

    def _connected(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.REQ)
        socket.linger = 0
        socket.connect(self._address)
        return socket

    def call(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        request = {
            "endpoint": "get_action",
            "data": {"observation": observation(seen), "options": None},
        }
        self._socket.send(pack(request, Dialect.ND))
        if not self._socket.poll(int(PATIENCE_S * 1000)):
            self._socket.close()
            self._socket = self._connected()
            raise NoAnswer("nothing came")
        answer, _ = unpack(self._socket.recv())
        if isinstance(answer, dict):
            raise NoAnswer(answer["error"])
        actions: np.ndarray = answer[0]["actions"][0]
        return actions

    def close(self) -> None:
        self._socket.close()
        self._context.term()


if __name__ == "__main__":
    serve(sys.argv[1])
