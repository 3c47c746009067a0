"""openpi's policy server and its own client: WebSocket, msgpack-numpy, one message each way, no compression.

The server follows `openpi/serving/websocket_policy_server.py`: metadata on connect, then observation in, actions out,
with inference inside the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from openpi_client import msgpack_numpy
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as websocket_server
from websockets.exceptions import ConnectionClosed

from benchmarks.transport.peers import null_policy

Policy = Callable[[dict[str, Any]], np.ndarray]


async def _handle(policy: Policy, socket: ServerConnection) -> None:
    packer = msgpack_numpy.Packer()
    await socket.send(packer.pack({"name": "null"}))
    while True:
        try:
            seen = msgpack_numpy.unpackb(await socket.recv())
        except ConnectionClosed:
            return
        started_s = time.monotonic()
        answer: dict[str, Any] = {"actions": policy(seen)}
        answer["server_timing"] = {"infer_ms": (time.monotonic() - started_s) * 1000}
        await socket.send(packer.pack(answer))


async def _serve(port: int | None, policy: Policy) -> None:
    handle = partial(_handle, policy)
    async with websocket_server(handle, "127.0.0.1", port, compression=None, max_size=None) as server:
        await server.serve_forever()


def serve(address: str, policy: Policy = null_policy) -> None:
    asyncio.run(_serve(urlsplit(address).port, policy))


class Client:
    def __init__(self, address: str, name: str) -> None:
        self._policy = WebsocketClientPolicy("127.0.0.1", urlsplit(address).port)

    def call(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        actions: np.ndarray = self._policy.infer(seen)["actions"]
        return actions

    def close(self) -> None:
        self._policy._ws.close()
