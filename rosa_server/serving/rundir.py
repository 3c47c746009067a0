"""The private folder of a server's worker socket, and the removal of those that killed servers left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from pathlib import Path

PREFIX = "rosa-server-"
SOCKET = "workers"


def make_rundir() -> Path:
    """A new folder that only this user can enter. Those of servers that were killed are removed first."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another server may be removing it
            if folder.stat().st_uid == os.getuid() and _abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


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
