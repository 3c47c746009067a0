"""The floor: raw ZeroMQ ROUTER/DEALER multipart, frames as they are, one process, no queue, no checks, no deadlines."""

from __future__ import annotations

import numpy as np
import zmq

from benchmarks.transport.peers import ACTIONS, CAMERAS, SIZE, null_policy


def serve(address: str) -> None:
    answer = ACTIONS.tobytes()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.bind(address)
        while True:
            frames = socket.recv_multipart(copy=False)
            seen = {
                camera: np.frombuffer(frame.buffer, np.uint8).reshape(SIZE, SIZE, 3)
                for camera, frame in zip(CAMERAS, frames[1:3], strict=True)
            }
            null_policy(seen)
            socket.send_multipart([frames[0], answer])


class Client:
    def __init__(self, address: str, name: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.connect(address)

    def call(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        arrays = [*(seen[camera] for camera in CAMERAS), seen["state"]]
        self._socket.send_multipart(arrays)  # type: ignore[arg-type]  # buffers: numpy says so from Python 3.12 on
        return np.frombuffer(self._socket.recv(), np.float32).reshape(50, 8)

    def close(self) -> None:
        self._socket.close()
        self._context.term()
