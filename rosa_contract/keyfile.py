"""Key files, as `rosa keys` writes them and both sides read them. The same folder layout on every machine:

    server.key                  the server's public key, on every machine
    server.key_secret           on the server only
    robots/NAME.key             a robot's public key, on the server
    robots/NAME.key_secret      on that robot only
    gateways/NODE.key           public keys of several gateways of one schedule, on each of them
    gateways/NODE.key_secret    on that node only
    slots.key_secret            what seals the robots' proofs of their slots, on each of these nodes and nowhere else

The format is ZeroMQ's for certificates (ZPL, RFC 4): `public-key = "..."`, `secret-key = "..."`, 40 characters of Z85.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from rosa_contract.errors import ContractError

SERVER = "server"
ROBOTS = "robots"
GATEWAYS = "gateways"
SLOTS = "slots"
KEY = re.compile(
    r'^\s*(public|secret)-key\s*=\s*"([0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40})"\s*$', re.MULTILINE
)
OTHERS = 0o077  # rights of anybody but the owner
MAX_BYTES = 10_000


class KeyFileError(ContractError):
    """A key file that cannot be used; the text names it, what is wrong, and what to do."""


@dataclass(frozen=True)
class RobotKeys:
    """What a robot needs for ZeroMQ CURVE, 40 bytes of Z85 each."""

    public: bytes
    secret: bytes
    server: bytes  # the server's public key


def load_robot_keys(folder: str | Path, robot: str) -> RobotKeys:
    """The keys of `robot` in a key folder. Raises `KeyFileError`."""
    robots = Path(folder) / ROBOTS
    own = read_keys(robots / f"{robot}.key_secret", f"make it with `rosa keys {folder} --robot {robot}`")
    server = read_keys(Path(folder) / f"{SERVER}.key", "copy it from the server's key folder")
    return RobotKeys(own["public"], own["secret"], server["public"])


def check_folder(folder: Path) -> None:
    """Raise `KeyFileError` for a folder in which anybody may put keys, or exchange them. None is no mistake here."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return
    if mode & stat.S_IWOTH:
        raise KeyFileError(
            f"{folder}: anybody may change what is in it (mode {mode & 0o7777:o}); run chmod o-w {folder}"
        )


def read_keys(path: Path, remedy: str = "") -> dict[str, bytes]:
    """The keys of one file by kind: "public", and of a `.key_secret` file "secret" too. Raises `KeyFileError`.

    `remedy`: what to do when there is no such file.
    """
    check_folder(path.parent)
    try:
        # Not to wait for a writer, where somebody has put a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as file:
            mode = os.fstat(descriptor).st_mode
            text = (file.read(MAX_BYTES) or b"").decode(errors="replace") if stat.S_ISREG(mode) else ""
    except FileNotFoundError:
        raise KeyFileError(f"{path}: there is no such file" + (f"; {remedy}" if remedy else "")) from None
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not stat.S_ISREG(mode):
        raise KeyFileError(f"{path}: is no file, but a folder, a pipe or a device")
    if mode & stat.S_IWOTH:
        raise KeyFileError(f"{path}: anybody may change it (mode {mode & 0o777:o}); run chmod o-w {path}")
    secret = path.suffix == ".key_secret"
    if secret and mode & OTHERS:
        raise KeyFileError(
            f"{path}: others may read or change it (mode {mode & 0o777:o}); run chmod 600 {path}"
        )
    found = {kind: key.encode() for kind, key in KEY.findall(text)}
    for kind in ("public", "secret")[: 1 + secret]:
        if kind not in found:
            raise KeyFileError(f'{path}: expected a line `{kind}-key = "..."` of 40 characters, found none')
    return found
