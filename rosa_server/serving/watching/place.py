"""Where a gateway's watch socket is: in a folder that only this user can enter, which is what protects it."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from rosa_contract.endpoint import endpoint_problem
from rosa_contract.errors import CausedError

AUTO = "auto"
SUFFIX, STATE_SUFFIX = ".watch", ".state"
LEFT_AFTER_S = 60.0  # a socket file of this age on which nobody listens was left by a gateway that was killed


class WatchError(CausedError):
    """There is no private place for the watch socket."""

    CAUSES: ClassVar = {
        "not_private": "the folder belongs to somebody else, or others can enter it",
        "cannot_write": "the folder cannot be made",
        "bad_endpoint": "it is no ipc:// endpoint",
    }


def default_folder() -> Path:
    """Of this user: $XDG_RUNTIME_DIR/rosa, or rosa-UID in the folder of temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(runtime) / "rosa" if runtime else Path(tempfile.gettempdir()) / f"rosa-{os.getuid()}"


def watch_endpoint(setting: str, robots_endpoint: str, folder: Path | None = None) -> str:
    """The endpoint that `gateway.watch` means for a gateway that listens to robots on `robots_endpoint`.

    `AUTO`: a socket named after the robots' endpoint. Empty: none. Raises `WatchError`.
    """
    if not setting:
        return ""
    if setting == AUTO:
        folder = folder or default_folder()
        path = folder / f"{socket_name(robots_endpoint)}{SUFFIX}"
    elif setting.startswith("ipc://"):
        path = Path(setting.removeprefix("ipc://"))
    else:
        raise WatchError(
            "bad_endpoint", f"gateway.watch: expected auto, ipc://PATH or nothing, got {setting!r}"
        )
    if problem := endpoint_problem(f"ipc://{path}", binds=True):
        raise WatchError("bad_endpoint", f"gateway.watch: {problem}")
    _make_private(path.parent)
    return f"ipc://{path}"


def state_path(setting: str, robots_endpoint: str, folder: Path | None = None) -> Path | None:
    """The file that `gateway.state` means; none where it is off, or where `AUTO` cannot tell one gateway from another.

    Raises `WatchError` where its folder is not private.
    """
    name = socket_name(robots_endpoint)
    if not setting or (setting == AUTO and (name == "0" or "*" in robots_endpoint)):
        return None
    path = (folder or default_folder()) / f"{name}{STATE_SUFFIX}" if setting == AUTO else Path(setting)
    _make_private(path.parent)
    return path


def socket_name(robots_endpoint: str) -> str:
    """`5570` for tcp://127.0.0.1:5570: one gateway per port; of other endpoints, what may stand in a file's name."""
    port = robots_endpoint.rpartition(":")[2]
    if robots_endpoint.startswith("tcp://") and port.isdigit():
        return port
    return re.sub(r"[^0-9A-Za-z]+", "-", robots_endpoint).strip("-")[-40:]


def watched_gateways(folder: Path | None = None) -> dict[str, str]:
    """Name -> endpoint of the gateways that listen in the default folder. What killed ones have left is removed."""
    found = {}
    for path in sorted((folder or default_folder()).glob(f"*{SUFFIX}")):
        if _listens(path):
            found[path.name.removesuffix(SUFFIX)] = f"ipc://{path}"
        else:
            with contextlib.suppress(OSError):  # a young one may be about to listen
                if time.time() - path.stat().st_mtime > LEFT_AFTER_S:
                    path.unlink()
    return found


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def check_private(folder: Path) -> None:
    """Raise `WatchError` where others could put a socket there, or reach one."""
    found = folder.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or mode & 0o077:
        words = (
            f"{folder}: expected a folder of this user that nobody else can enter (chmod 700), got {mode:o}"
        )
        raise WatchError("not_private", words)


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(folder)
    except OSError as error:
        raise WatchError("cannot_write", f"{folder}: {error.strerror or error}") from None
