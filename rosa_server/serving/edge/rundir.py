"""The private folder of a server's worker socket, and the removal of those that killed servers left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import ClassVar

from rosa_contract.endpoint import MAX_PATH_BYTES, endpoint_problem
from rosa_contract.errors import CausedError

PREFIX = "rosa-server-"
SOCKET = "workers"


class RundirError(CausedError):
    """There is no place for the socket of the workers."""

    CAUSES: ClassVar = {
        "cannot_write": "the folder of temporary files cannot be written",
        "path_too_long": "its path is too long for a socket",
    }


def make_rundir() -> Path:
    """A new folder that only this user can enter. Those of servers that were killed are removed first.

    Raises `RundirError`.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another server may be removing it
            if folder.stat().st_uid == os.getuid() and _abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
    try:
        made = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    except OSError as error:
        words = f"no folder can be made in {tempfile.gettempdir()}: {error.strerror or error}; set TMPDIR to another"
        raise RundirError("cannot_write", words) from None
    if endpoint_problem(f"ipc://{made / SOCKET}", binds=True):
        made.rmdir()
        words = f"{made / SOCKET}: a socket's path has at most {MAX_PATH_BYTES} bytes; set TMPDIR to a shorter one"
        raise RundirError("path_too_long", words)
    return made


def _abandoned(folder: Path) -> bool:
    """Whether its server is gone: no such process, and nobody listens (the process may live in another container)."""
    path, pid = folder / SOCKET, folder.name.removeprefix(PREFIX).split("-")[0]
    if not path.exists() or not pid.isdigit() or Path(f"/proc/{pid}").exists():
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
