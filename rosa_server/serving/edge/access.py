"""Who may talk to the gateway: loopback only, or anybody whose CURVE key is in the key folder.

A key folder (`rosa_contract/keyfile.py`) holds the server's key pair and the public key of each robot. The server
checks a robot's key against these files by ZeroMQ's authentication protocol (ZAP, RFC 27), and a robot may say hello
only under the name of its key.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import zmq
import zmq.auth
from zmq.utils import z85

from rosa_contract.endpoint import is_loopback
from rosa_contract.errors import CausedError
from rosa_contract.keyfile import GATEWAYS, ROBOTS, SERVER, SLOTS, KeyFileError, check_folder, read_keys
from rosa_contract.wire.bounds import MAX_NAME_CHARS
from rosa_contract.wire.messages import Refused
from rosa_server.plan.nodes_file import MAX_NODE_CHARS
from rosa_server.serving.base import log
from rosa_server.serving.base.peer_keys import PEER_DOMAIN, PeerKeys
from rosa_server.serving.base.worker_keys import DOMAIN, WorkerKeys
from rosa_server.serving.core.guard.bucket import Bucket

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
ZAP_DOMAIN = b"rosa"
# How often the folder is read for those who connect: with a thousand keys it takes 5 ms, whatever key they have.
LOOKS_PER_S, LOOKS_AT_ONCE = 20.0, 20.0
KEY_PROPERTY = (
    "X-Key"  # of a robot's connection: the public key that let it in, as ZeroMQ tells it with each message
)


class AccessError(CausedError):
    """The server's keys are missing or unusable, or it would be open to the network without any."""

    CAUSES: ClassVar = {
        "open_to_network": "other machines could connect without keys",
        "bad_key_folder": "the server's keys are missing, unreadable, readable by others or not a pair",
        "bad_robot_name": "no key can have this name",
        "key_exists": "the robot, or the node, has a key already",
        "cannot_write": "the key folder cannot be written",
    }


def check_bind(endpoint: str, curve_keys: str, insecure: bool) -> None:
    """Raise `AccessError` for an endpoint that strangers could reach."""
    if curve_keys or insecure or is_loopback(endpoint):
        return
    raise AccessError(
        "open_to_network",
        f"gateway.bind: {endpoint} can be reached from other machines and gateway.curve_keys is not set; make keys with"
        " `rosa keys FOLDER` and set gateway.curve_keys to it, bind to tcp://127.0.0.1:PORT, or insist with --insecure",
    )


def make_keys(folder: Path, *names: str, nodes: Sequence[str] = ()) -> list[Path]:
    """Create the server's key pair where it is missing, those of robots, and those of the gateways of several `nodes`
    with the secret that they share. Returns the new files.

    Raises `AccessError`, and makes nothing, if one of them already has a key.
    """
    for kind, owners, most in ((ROBOTS, names, MAX_NAME_CHARS), (GATEWAYS, nodes, MAX_NODE_CHARS)):
        for name in owners:
            if not is_key_name(name) or len(name) > most:
                expected = f"expected letters, digits, '-', '_' and '.', at most {most} characters"
                words = f"{kind[:-1]} name {name!r}: {expected}"
                raise AccessError("bad_robot_name", words)
            if (folder / kind / f"{name}.key").exists():
                words = f"{folder / kind / name}.key exists; remove it first to make a new one"
                raise AccessError("key_exists", words)
    made: list[Path] = []
    try:
        if not folder.exists():
            folder.mkdir(parents=True, mode=0o700)
        (folder / ROBOTS).mkdir(exist_ok=True)
        if not (folder / f"{SERVER}.key_secret").exists():
            made += _pair(folder, SERVER)
        for name in dict.fromkeys(names):
            made += _pair(folder / ROBOTS, name)
        if nodes:
            (folder / GATEWAYS).mkdir(exist_ok=True)
        if nodes and not (folder / f"{SLOTS}.key_secret").exists():
            public, secret = _pair(folder, SLOTS)
            public.unlink()  # nobody connects with it
            made.append(secret)
        for name in dict.fromkeys(nodes):
            made += _pair(folder / GATEWAYS, name)
    except OSError as error:
        words = f"{error.filename or folder}: {error.strerror or error}; keys need a folder"
        raise AccessError("cannot_write", words) from None
    return made


def is_key_name(name: str) -> bool:
    """Whether a key can be called so: its name is that of a file."""
    return bool(name) and not name.startswith(".") and all(c.isalnum() or c in "-_." for c in name)


def _pair(folder: Path, name: str) -> list[Path]:
    old = os.umask(0o077)  # secrets are readable by their owner only, from the first moment
    try:
        return [Path(path) for path in zmq.auth.create_certificates(folder, name)]
    finally:
        os.umask(old)


class KeyRing:
    """The keys of a folder, and the ZAP answers that follow from them. Robots added later are known at once."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._seldom, self._broken = log.Seldom(), log.Seldom(every_s=600.0)
        secret_file = self.folder / f"{SERVER}.key_secret"
        try:
            keys = read_keys(secret_file, f"make keys with `rosa keys {folder}`")
            check_folder(self.folder / ROBOTS)
        except KeyFileError as error:
            raise AccessError("bad_key_folder", f"gateway.curve_keys: {error}") from None
        self._public, self._secret = keys["public"], keys["secret"]
        if zmq.curve_public(self._secret) != self._public:
            words = f"gateway.curve_keys: {secret_file}: its two keys are no pair; copy the file again"
            raise AccessError("bad_key_folder", words)
        self._robots: dict[str, tuple[tuple[int, ...], bytes]] = {}  # name -> (stamp of its file, public key)
        self._revoked: set[str] = set()
        self._looks = Bucket(LOOKS_PER_S, LOOKS_AT_ONCE)
        self._refresh()

    def robot_of(self, public_key: bytes) -> str | None:
        """The name of the robot with this public key (32 bytes), or None for a stranger. While a crowd connects, as the
        folder was some milliseconds ago."""
        if self._looks.take_if_left(1.0, time.monotonic()):
            self._refresh()
        wanted = z85.encode(public_key)
        return next((name for name, (_, key) in sorted(self._robots.items()) if key == wanted), None)

    def knows(self, robot: str) -> bool:
        """Whether this robot had a key when the files were read last."""
        return robot in self._robots

    def refusal(self, owner: str, key: str, robot: str) -> Refused | None:
        """What a robot is answered that says hello over a connection with this key of this owner: it must have the name
        of its key, or it could speak for another robot. None: it is welcome."""
        if robot != owner:
            words = f"robot_id: this connection's key belongs to {owner!r}, it said hello as {robot!r}"
        elif not self.knows(owner):
            words = f"robot_id: the key of {owner!r} was removed from the key folder"
        elif key.encode() != self._robots[owner][1]:
            words = f"robot_id: {owner!r} has another key in the key folder than this connection's {key}"
        else:
            return None
        return Refused("wrong_key", words)

    def revoked(self) -> set[str]:
        """The names whose key is gone, or another one, since this was asked last."""
        self._refresh()
        revoked, self._revoked = self._revoked, set()
        return revoked

    def _refresh(self) -> None:
        """Read the files that have changed."""
        before, self._robots = self._robots, {}
        try:
            entries = list(os.scandir(self.folder / ROBOTS))
        except OSError:  # no folder, no robots
            entries = []
        for entry in entries:
            if not entry.name.endswith(".key"):
                continue
            name = entry.name.removesuffix(".key")
            try:
                status = entry.stat()
                stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
                known = before.get(name)
                key = known[1] if known and known[0] == stamp else read_keys(Path(entry.path))["public"]
            except (OSError, KeyFileError) as error:  # as if it were not there
                if self._broken.due(entry.path):
                    log.warning("key_file_unusable", file=entry.path, reason=str(error))
                continue
            self._robots[name] = (stamp, key)
        self._revoked |= {
            name for name, (_, key) in before.items() if self._robots.get(name, ((), b""))[1] != key
        }

    def protect(self, socket: zmq.Socket[bytes]) -> None:
        """Make a socket, not yet bound, talk CURVE only."""
        socket.curve_server = True
        socket.curve_publickey = self._public
        socket.curve_secretkey = self._secret
        socket.zap_domain = ZAP_DOMAIN

    def admit(self, public_key: bytes, address: str) -> str | None:
        """The robot that connects with this key; a stranger is logged."""
        robot = self.robot_of(public_key) if public_key else None
        if robot is None and self._seldom.due((address, public_key)):
            key = z85.encode(public_key).decode() if public_key else ""
            log.warning("robot_refused", address=address, cause="unknown_key", key=key)
        return robot


def admit(
    request: list[bytes], robots: KeyRing | None, workers: WorkerKeys | None, peers: PeerKeys | None = None
) -> list[bytes]:
    """The ZAP reply to a ZAP request of the robots', the workers' or the other gateways' socket.

    It is 200 with the name that the key belongs to as user id, and a robot's key, or 400.
    """
    if len(request) < 6 or request[0] != b"1.0":
        number = request[1] if len(request) > 1 else b""
        return [b"1.0", number, b"500", b"not a ZAP 1.0 request", b"", b""]
    mechanism, credentials = request[5], request[6:]
    sound = mechanism == b"CURVE" and len(credentials) == 1 and len(credentials[0]) == 32
    key = credentials[0] if sound else b""
    name: str | None = None
    told = b""
    if request[2] == ZAP_DOMAIN and robots is not None:
        name = robots.admit(key, request[3].decode(errors="replace"))
        told = _property(KEY_PROPERTY, z85.encode(key)) if name is not None else b""
    elif request[2] == ZAP_DOMAIN:  # robots need no keys here, only workers do
        name = ""
    elif request[2] == DOMAIN and workers is not None and key:
        name = workers.owner(key)
    elif request[2] == PEER_DOMAIN and peers is not None and key:
        name = peers.admit(key, request[3].decode(errors="replace"))
    if name is None:
        return [b"1.0", request[1], b"400", b"unknown key", b"", b""]
    return [b"1.0", request[1], b"200", b"OK", name.encode(), told]


def _property(name: str, value: bytes) -> bytes:
    """As ZeroMQ reads what is known of a connection (RFC 23). It goes before what the peer says under the name."""
    return bytes((len(name),)) + name.encode() + len(value).to_bytes(4, "big") + value
