"""The token of a robot's session, in a private file: a process that crashed and is started again keeps its name.

A gateway without keys reserves a robot's name for whoever has the token of its last welcome. A file that cannot be
read or written costs no more than the wait until the name is free again.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import tempfile
from pathlib import Path

LONGEST = 128

log = logging.getLogger("rosa.link")


def default_folder() -> Path:
    """Of this user and of this boot: $XDG_RUNTIME_DIR/rosa, or rosa-UID in the folder of temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(runtime) / "rosa" if runtime else Path(tempfile.gettempdir()) / f"rosa-{os.getuid()}"


class SessionToken:
    """One file per robot and gateway, readable by its owner only."""

    def __init__(self, folder: Path, endpoint: str, robot_id: str) -> None:
        self._folder, self._robot_id = folder, robot_id
        name = hashlib.sha256(f"{endpoint}\0{robot_id}".encode()).hexdigest()[:32]
        self._path, self._kept = folder / name, ""

    def at(self, endpoint: str) -> SessionToken:
        """That of the same robot at another gateway."""
        return SessionToken(self._folder, endpoint, self._robot_id)

    def load(self) -> str:
        """What was kept last, or an empty string."""
        try:
            self._check_folder()
            text = self._path.read_text("ascii")
        except (OSError, UnicodeDecodeError):
            return ""
        self._kept = text if len(text) <= LONGEST and text.isalnum() else ""
        return self._kept

    def keep(self, token: str) -> None:
        """Write it down, if it is another one."""
        if not token or token == self._kept:
            return
        self._kept = token  # tried once, not with every message
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
            fresh.unlink(missing_ok=True)
            file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as out:
                out.write(token)
            fresh.replace(self._path)
        except OSError as error:
            log.warning("the session's token is not kept, a restarted robot waits for its name: %s", error)

    def forget(self) -> None:
        """The robot has said bye: its name is free, and the token worth nothing."""
        self._kept = ""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _check_folder(self) -> None:
        """Raise `OSError` where others could read or write the file: the folder of temporary files is everybody's."""
        found = self._path.parent.lstat()
        if (
            found.st_uid != os.getuid()
            or stat.S_IMODE(found.st_mode) & 0o077
            or not stat.S_ISDIR(found.st_mode)
        ):
            raise PermissionError(f"{self._path.parent} is not private to this user")
