"""`inferential` (PyPI) as its README runs it: a local dispatcher with a function, and its connection."""

from __future__ import annotations

import asyncio
import os
import sys

import numpy as np
from inferential import Connection, LocalDispatcher, Server

from benchmarks.frontends.peers import PATIENCE_S, SLO_MS, NoAnswer, one_by_one

MODEL = "policy"


def serve(address: str) -> None:
    dispatcher = LocalDispatcher({MODEL: lambda seen: {"actions": one_by_one(seen)}})
    asyncio.run(Server(bind=address, dispatcher=dispatcher).run())


class Client:
    def __init__(self, address: str) -> None:
        self._connection = Connection(server=address, client_id=f"robot-{os.getpid()}", client_type="bench")
        self._model = self._connection.model(MODEL, latency_budget_ms=SLO_MS)

    def call(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        self._model.observe(urgency=0.5, **seen)
        result = self._model.get_result(timeout_ms=int(PATIENCE_S * 1000))
        if result is None:
            raise NoAnswer("nothing came")
        actions: np.ndarray = result["actions"]
        return actions

    def close(self) -> None:
        self._connection.close()


if __name__ == "__main__":
    serve(sys.argv[1])
