"""Who may look and decide: a token for each person, of which only its hash is kept."""

from __future__ import annotations

import getpass
import hashlib
import hmac
import os
import re
import secrets
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from rosa_contract.errors import CausedError
from rosa_contract.wire.bounds import MAX_NAME_CHARS

TOKEN_BYTES = 32
MAX_FILE_BYTES = 1 << 20
NAME = re.compile(r"[^\s:#][^:#\n]{0,63}")
HASH = re.compile(r"[0-9a-f]{64}")


class PeopleError(CausedError):
    """The file of those who may look and decide cannot be used."""

    CAUSES: ClassVar = {
        "unreadable": "the file cannot be read or written",
        "not_private": "others than its owner can read or write it",
        "syntax": "a line is not `NAME: SHA-256 of a token`",
        "duplicate_name": "somebody stands there twice",
        "bad_name": "a name is too long, or has a character that it must not have",
    }


class People:
    """Tokens by person. Comparing takes as long whether or not a token is right."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        """`hashes`: name -> SHA-256 of the token, in hexadecimal digits."""
        self._hashes = dict(hashes)

    def of(self, token: str) -> str:
        """Whose token this is; empty: nobody's."""
        given, found = token_hash(token), ""
        for name, known in self._hashes.items():
            if hmac.compare_digest(given, known):
                found = name
        return found

    def with_person(self, name: str) -> tuple[People, str]:
        """The same people and one more, and the new one's token."""
        token = new_token()
        return People({**self._hashes, name: token_hash(token)}), token


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def token_hash(token: str) -> str:
    """A token is 256 random bits, so that a plain hash of it tells nobody anything."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def this_user() -> str:
    """Who has started this process, as the audit log of a robot shows it."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = f"uid {os.getuid()}"
    return "".join(c for c in f"{name}@{socket.gethostname()}" if c.isprintable())[:MAX_NAME_CHARS]


def load_people(path: str | Path) -> People:
    """Raises `PeopleError`."""
    return People(_read(Path(path)))


def add_person(path: str | Path, name: str) -> str:
    """Put somebody into the file, which is made where there is none; returns the token. Raises `PeopleError`."""
    path = Path(path)
    if not NAME.fullmatch(name) or not name.isprintable() or name != name.strip():
        raise PeopleError(
            "bad_name", f"a name has 1 to 64 printable characters without ':' and '#', got {name[:80]!r}"
        )
    known = _read(path) if path.exists() else {}
    if name in known:
        raise PeopleError(
            "duplicate_name", f"{path}: {name} has a token already; remove the line to give a new one"
        )
    token = new_token()
    try:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "a+") as file:
            file.seek(0)
            ended = file.read()[-1:] in ("", "\n")  # an editor may have left the last line open
            before = "" if ended else "\n"
            file.write(f"{before}{name}: {token_hash(token)}\n")
    except OSError as error:
        raise PeopleError("unreadable", f"{path}: {error.strerror or error}") from None
    return token


def _read(path: Path) -> dict[str, str]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            words = f"{path}: only its owner may read and write it (chmod 600), got {mode:o}"
            raise PeopleError("not_private", words)
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise PeopleError("unreadable", f"{path}: {error}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, _, value = (part.strip() for part in line.partition(":"))
        if not name or name.startswith("#"):
            continue
        if not NAME.fullmatch(name) or not name.isprintable() or not HASH.fullmatch(value):
            raise PeopleError("syntax", f"{path}:{number}: expected NAME: SHA-256 of a token")
        if name in found:
            raise PeopleError("duplicate_name", f"{path}:{number}: {name} stands there twice")
        found[name] = value
    return found
