"""gRPC with pickled payloads, as in LeRobot's policy server: a unary call, a thread pool.

Unpickling network bytes executes whatever they contain. Only this benchmark does it, on loopback, to
measure what others do.
"""

from __future__ import annotations

import pickle
from concurrent import futures
from urllib.parse import urlsplit

import grpc
import numpy as np

from benchmarks.transport.peers import null_policy

METHOD = "/bench.Policy/Infer"
OPTIONS = [("grpc.max_receive_message_length", 1 << 26), ("grpc.max_send_message_length", 1 << 26)]


def _infer(request: bytes, context: grpc.ServicerContext) -> bytes:
    return pickle.dumps({"actions": null_policy(pickle.loads(request))}, protocol=5)


class _Policy(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return grpc.unary_unary_rpc_method_handler(_infer) if details.method == METHOD else None


def serve(address: str) -> None:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=OPTIONS)
    server.add_generic_rpc_handlers((_Policy(),))
    server.add_insecure_port(urlsplit(address).netloc)
    server.start()
    server.wait_for_termination()


class Client:
    def __init__(self, address: str, name: str) -> None:
        self._channel = grpc.insecure_channel(urlsplit(address).netloc, options=OPTIONS)
        grpc.channel_ready_future(self._channel).result(timeout=30)
        self._infer = self._channel.unary_unary(METHOD)

    def call(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        actions: np.ndarray = pickle.loads(self._infer(pickle.dumps(seen, protocol=5)))["actions"]
        return actions

    def close(self) -> None:
        self._channel.close()
