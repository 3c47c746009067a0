"""The keys of workers on other machines: a pair for each life of each worker, which nobody else ever has.

A worker is told its pair when it is started, and its key is taken back when it has ended, or is given up. Whoever
connects must own a key that is valid now, and may speak under the name of that key only. A worker of an earlier life,
or of an earlier server, has none: whatever it still sends after a partition is not read.
"""

from __future__ import annotations

from dataclasses import dataclass

import zmq
from zmq.utils import z85

DOMAIN = b"rosa-workers"


@dataclass(frozen=True)
class WorkerKeyPair:
    """What one life of a worker needs for ZeroMQ CURVE, 40 characters of Z85 each."""

    public: str
    secret: str
    server: str  # the gateway's public key


class WorkerKeys:
    """Which workers may connect now. The gateway's own pair is as old as the server."""

    def __init__(self) -> None:
        self._public, self._secret = zmq.curve_keypair()
        self._names: dict[bytes, str] = {}  # public key, 40 bytes -> worker id
        self._keys: dict[str, bytes] = {}

    def issue(self, worker_id: str) -> WorkerKeyPair:
        """The key pair of a worker that is about to start. Raises `ValueError` where it has one."""
        if worker_id in self._keys:
            raise ValueError(f"{worker_id} has a key already")
        public, secret = zmq.curve_keypair()
        self._names[public], self._keys[worker_id] = worker_id, public
        return WorkerKeyPair(public.decode(), secret.decode(), self._public.decode())

    def withdraw(self, worker_id: str) -> None:
        """This worker has ended, or counts for nothing any more."""
        key = self._keys.pop(worker_id, None)
        if key is not None:
            del self._names[key]

    def valid(self, worker_id: str) -> bool:
        """Whether a worker of this name may speak."""
        return worker_id in self._keys

    def owner(self, public_key: bytes) -> str | None:
        """The worker with this public key (32 bytes); None for a stranger."""
        return self._names.get(z85.encode(public_key))

    def protect(self, socket: zmq.Socket[bytes]) -> None:
        """Make a socket, not yet bound, talk CURVE only."""
        socket.curve_server = True
        socket.curve_publickey = self._public
        socket.curve_secretkey = self._secret
        socket.zap_domain = DOMAIN
