"""openpi's policy server with openpi's own client, which is also the client of ROSA's frontend.

The server is of the design of `openpi/serving/websocket_policy_server.py`; OPENPI_SERVER names that file itself, where
it is at hand, and then its own class is run.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from websockets.exceptions import ConnectionClosed

from benchmarks.frontends.peers import NoAnswer, one_by_one
from benchmarks.transport.peers import openpi_websocket

OWN_FILE = "OPENPI_SERVER"  # in the environment


class Policy:
    """What `WebsocketPolicyServer` serves."""

    def infer(self, seen: dict[str, Any]) -> dict[str, Any]:
        return {"actions": one_by_one(seen)}


def serve(address: str) -> None:
    if not (path := os.environ.get(OWN_FILE, "")):
        openpi_websocket.serve(address, one_by_one)
        return
    spec = importlib.util.spec_from_file_location("websocket_policy_server", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{OWN_FILE}: cannot be loaded: {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.WebsocketPolicyServer(Policy(), "127.0.0.1", urlsplit(address).port, {"name": "bench"})
    server.serve_forever()


class Client:
    def __init__(self, address: str) -> None:
        self._port = urlsplit(address).port
        self._policy = WebsocketClientPolicy("127.0.0.1", self._port)

    def call(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        try:
            actions: np.ndarray = self._policy.infer(seen)["actions"]
        except (RuntimeError, ConnectionClosed) as error:
            self._policy._ws.close()
            self._policy = WebsocketClientPolicy("127.0.0.1", self._port)
            raise NoAnswer(str(error)) from error
        return actions

    def close(self) -> None:
        self._policy._ws.close()


if __name__ == "__main__":
    serve(sys.argv[1])
