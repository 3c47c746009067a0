"""Who may talk to the gateway: loopback only, or anybody whose CURVE key is in the key folder.

A key folder holds `server.key` (public), `server.key_secret`, and `robots/<name>.key` (public) per robot. The server
checks a robot's key against these files by ZeroMQ's authentication protocol (ZAP, RFC 27), and a robot may say hello
only under the name of its key.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit

import zmq
import zmq.auth
from zmq.utils import z85

from rosa_contract.errors import ContractError

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
ROBOTS = "robots"


class AccessError(ContractError):
    """The server's keys are missing or unusable, or it would be open to the network without any."""


def is_loopback(endpoint: str) -> bool:
    """Whether only processes of this machine can reach a ZeroMQ endpoint."""
    parts = urlsplit(endpoint)
    if parts.scheme in ("ipc", "inproc"):
        return True
    host = parts.hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, an interface or "*"
        return False


def check_bind(endpoint: str, curve_keys: str, insecure: bool) -> None:
    """Raise `AccessError` for an endpoint that strangers could reach."""
    if curve_keys or insecure or is_loopback(endpoint):
        return
    raise AccessError(
        f"gateway.bind: {endpoint} can be reached from other machines and gateway.curve_keys is not set; make keys with"
        " `rosa keys FOLDER` and set gateway.curve_keys to it, bind to tcp://127.0.0.1:PORT, or insist with --insecure"
    )


def make_keys(folder: Path, robot: str | None = None) -> list[Path]:
    """Create the server's key pair where it is missing, and a robot's. Returns the new files.

    Raises `AccessError` for a robot that already has a key.
    """
    made: list[Path] = []
    robots = folder / ROBOTS
    robots.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    if not (folder / "server.key_secret").exists():
        made += _pair(folder, "server")
    if robot is not None:
        if not robot or not all(c.isalnum() or c in "-_." for c in robot) or robot.startswith("."):
            raise AccessError(f"robot name {robot!r}: expected letters, digits, '-', '_' and '.'")
        if (robots / f"{robot}.key").exists():
            raise AccessError(f"{robots / robot}.key exists; remove it first to make a new one")
        made += _pair(robots, robot)
    return made


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
        secret_file = self.folder / "server.key_secret"
        try:
            self._public, secret = zmq.auth.load_certificate(secret_file)
        except (OSError, ValueError) as error:
            raise AccessError(
                f"gateway.curve_keys: {secret_file}: {error}; make keys with `rosa keys {folder}`"
            ) from None
        if secret is None:
            raise AccessError(f"gateway.curve_keys: {secret_file} holds no secret key")
        self._secret = secret
        self._robots: dict[str, tuple[tuple[int, ...], bytes]] = {}  # name -> (stamp of its file, public key)
        self.refresh()

    def robot_of(self, public_key: bytes) -> str | None:
        """The name of the robot with this public key (32 bytes), or None for a stranger."""
        self.refresh()
        wanted = z85.encode(public_key)
        return next((name for name, (_, key) in sorted(self._robots.items()) if key == wanted), None)

    def refresh(self) -> set[str]:
        """Read the files that have changed. Returns the names whose key is gone or another one."""
        before, self._robots = self._robots, {}
        try:
            entries = list(os.scandir(self.folder / ROBOTS))
        except OSError:  # no folder, no robots
            entries = []
        for entry in entries:
            if not entry.name.endswith(".key"):
                continue
            name = entry.name.removesuffix(".key")
            with contextlib.suppress(OSError, ValueError):  # unreadable: as if it were not there
                status = entry.stat()
                stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
                known = before.get(name)
                key = known[1] if known and known[0] == stamp else zmq.auth.load_certificate(entry.path)[0]
                self._robots[name] = (stamp, key)
        return {name for name, (_, key) in before.items() if self._robots.get(name, ((), b""))[1] != key}

    def protect(self, socket: zmq.Socket[bytes]) -> None:
        """Make a socket, not yet bound, talk CURVE only."""
        socket.curve_server = True
        socket.curve_publickey = self._public
        socket.curve_secretkey = self._secret
        socket.zap_domain = b"rosa"

    def answer(self, request: list[bytes]) -> list[bytes]:
        """The ZAP reply to a ZAP request: 200 with the robot's name as user id, or 400."""
        if len(request) < 6 or request[0] != b"1.0":
            return [
                b"1.0",
                request[1] if len(request) > 1 else b"",
                b"500",
                b"not a ZAP 1.0 request",
                b"",
                b"",
            ]
        mechanism, credentials = request[5], request[6:]
        robot = None
        if mechanism == b"CURVE" and len(credentials) == 1 and len(credentials[0]) == 32:
            robot = self.robot_of(credentials[0])
        if robot is None:
            return [b"1.0", request[1], b"400", b"unknown key", b"", b""]
        return [b"1.0", request[1], b"200", b"OK", robot.encode(), b""]
