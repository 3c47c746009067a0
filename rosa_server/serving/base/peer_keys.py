"""The keys of several gateways of one schedule: which of them may connect here, and how this one proves its identity.

The files are those of `rosa_contract/keyfile.py`: `gateways/NODE.key` of each, `gateways/NODE.key_secret` of this one,
and `slots.key_secret`, which all of them share and robots never see. They are read once: another node, or another key,
is another start.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import zmq
from zmq.utils import z85

from rosa_contract.keyfile import GATEWAYS, SLOTS, KeyFileError, read_keys
from rosa_server.serving.base import log
from rosa_server.serving.base.worker_keys import WorkerKeyPair

PEER_DOMAIN = b"rosa-gateways"


class PeerKeys:
    """Of the gateway of node `here`. Raises `KeyFileError` where a file is missing or cannot be used."""

    def __init__(self, folder: str | Path, here: str, others: Collection[str]) -> None:
        gateways = Path(folder) / GATEWAYS
        make = f"make it with `rosa keys {folder} --node NAME` for every node, and copy it"
        secret_file = gateways / f"{here}.key_secret"
        own = read_keys(secret_file, make)
        self._public, self._secret = own["public"], own["secret"]
        if zmq.curve_public(self._secret) != self._public:
            raise KeyFileError(f"{secret_file}: its two keys are no pair; copy the file again")
        self._keys = {name: read_keys(gateways / f"{name}.key", make)["public"] for name in others}
        self._names = {key: name for name, key in self._keys.items()}
        if len({self._public, *self._names}) <= len(self._keys):
            raise KeyFileError(f"{gateways}: two nodes have the same key; make one for each")
        self.seal = read_keys(Path(folder) / f"{SLOTS}.key_secret", make)["secret"]
        self._seldom = log.Seldom()

    def protect(self, socket: zmq.Socket[bytes]) -> None:
        """Make a socket, not yet bound, talk CURVE only."""
        socket.curve_server = True
        socket.curve_publickey = self._public
        socket.curve_secretkey = self._secret
        socket.zap_domain = PEER_DOMAIN

    def towards(self, node: str) -> WorkerKeyPair:
        """What a socket needs that connects to another gateway: nobody else can answer it."""
        return WorkerKeyPair(self._public.decode(), self._secret.decode(), self._keys[node].decode())

    def admit(self, public_key: bytes, address: str) -> str | None:
        """The node whose gateway connects with this public key (32 bytes); a stranger is logged."""
        node = self._names.get(z85.encode(public_key))
        if node is None and self._seldom.due((address, public_key)):
            log.warning("peer_refused", address=address, cause="unknown_key")
        return node
