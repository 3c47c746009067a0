"""The slots that one gateway of several has given out, on its disk before any robot hears of it, and the schedule that
it has got to since it was started with one, before another gateway hears of that.

One file per node and port, and one owner: its gateway. Without it a gateway that was started again could give a robot's
slot to another one. So it is written to the disk itself, in a thread, as that takes some milliseconds: what changes
meanwhile is written together. A file that cannot be read keeps the gateway from starting. That of another schedule
counts for nothing: the proofs of its slots do not, either.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from rosa_contract.errors import CausedError, CodecError
from rosa_contract.wire.bounds import MAX_ID, MAX_NAME_CHARS, MAX_ROBOTS
from rosa_server.plan.fleet_plan import FleetPlan, plan_bytes, plan_of
from rosa_server.serving.base import log
from rosa_server.serving.core.sessions.homes import Grant

VERSION = 1
MAX_FILE_BYTES = 32 << 20
CLOSES_S = 5.0


class SlotsFileError(CausedError):
    """It is not known which slots robots have."""

    CAUSES: ClassVar = {
        "not_private": "the folder or file belongs to another user or is writable by others",
        "unreadable": "the file cannot be read or was not written by a gateway",
        "cannot_write": "the folder cannot be created or written",
    }


def state_folder() -> Path:
    """Of this user, and kept over a restart of the machine: $XDG_STATE_HOME/rosa, or ~/.local/state/rosa."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state else Path.home() / ".local" / "state") / "rosa"


class SlotsFile:
    """`schedule`: the fingerprint of what its slots belong to."""

    def __init__(self, folder: Path, name: str, schedule: str) -> None:
        self._path, self._schedule = folder / f"{name}.slots", schedule
        self._failed = False
        self._changed = threading.Condition()
        self.plan: FleetPlan | None = None  # that was written last; none: that of the command line
        self._grants: dict[str, Grant] = {}
        self._wanted = False  # something is to be written
        self._number = self._tried = self._done = 0  # of writings: the last one asked for, tried, on the disk
        self._thread: threading.Thread | None = None

    def load(self) -> dict[str, Grant]:
        """What was kept last; nothing where there is no file, or one of another schedule. Raises `SlotsFileError`."""
        folder = self._path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check(folder.stat(), str(folder))
            with self._path.open("rb") as file:
                self._check(os.fstat(file.fileno()), str(self._path))
                raw = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SlotsFileError("cannot_write", f"{self._path}: {error.strerror or error}") from None
        try:
            self._grants, self.plan = self._read(raw)
            return dict(self._grants)
        except (ValueError, RecursionError, CodecError) as error:
            words = f"{self._path}: {error}; remove it once no robot works with the slots of this node"
            raise SlotsFileError("unreadable", words) from None

    def keep(self, grants: Mapping[str, Grant]) -> int:
        """Begin to write these down. Returns the number of this writing."""
        with self._changed:
            self._grants = dict(grants)
            return self._begin()

    def keep_plan(self, plan: FleetPlan) -> int:
        """Begin to write down that this schedule runs. Returns the number of this writing."""
        with self._changed:
            self.plan = plan
            return self._begin()

    def _begin(self) -> int:
        """Under the lock."""
        self._number += 1
        self._wanted = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="slots", daemon=True)
            self._thread.start()
        self._changed.notify_all()
        return self._number

    def kept(self, number: int) -> bool | None:
        """Whether this is on the disk, or something later; false where that failed; None: it is under way."""
        with self._changed:
            if number <= self._done:
                return True
            return False if number <= self._tried else None

    def close(self) -> None:
        """What was asked for is written, if that takes no longer than `CLOSES_S`."""
        with self._changed:
            self._changed.wait_for(lambda: self._tried == self._number, CLOSES_S)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted)
                grants, number = self._grants, self._number
                self._wanted = False
            done = self.write(grants)
            with self._changed:
                self._tried = number
                self._done = number if done else self._done
                self._changed.notify_all()

    def write(self, grants: Mapping[str, Grant]) -> bool:
        """These, and what schedule runs. Returns when all is on the disk; false where that failed, which is logged
        once."""
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        data = json.dumps({"v": VERSION, "schedule": self._schedule, "grants": grants}).encode()
        plan = self.plan
        if plan is not None:  # a large one is turned into text once, and not with each slot
            data = data[:-1] + b', "plan": ' + plan_bytes(plan) + b"}"
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            if not self._failed:
                log.error("slots_not_kept", path=str(self._path), reason=str(error))
            self._failed = True
            return False
        self._failed = False
        return True

    def _check(self, found: os.stat_result, what: str) -> None:
        if found.st_uid != os.getuid() or found.st_mode & 0o022:
            words = f"{what}: others can write it, or it is somebody else's; name another folder with `state`"
            raise SlotsFileError("not_private", words)

    def _read(self, raw: bytes) -> tuple[dict[str, Grant], FleetPlan | None]:
        if len(raw) > MAX_FILE_BYTES:
            raise ValueError(f"larger than {MAX_FILE_BYTES} bytes")
        data = json.loads(raw)
        keys = data.keys() - {"plan"} if isinstance(data, dict) else set()
        if keys != {"v", "schedule", "grants"} or data["v"] != VERSION:
            raise ValueError(f"expected a map of version {VERSION}")
        if data["schedule"] != self._schedule:
            log.warning("slots_of_another_schedule", path=str(self._path))
            return {}, None
        grants = data["grants"]
        if not isinstance(grants, dict) or len(grants) > MAX_ROBOTS:
            raise ValueError(f"grants: expected a map of at most {MAX_ROBOTS} slots")
        plan = plan_of(data["plan"]) if "plan" in data else None
        return {slot: _grant(slot, one) for slot, one in grants.items()}, plan


def _grant(slot: str, value: Any) -> Grant:
    if (
        isinstance(value, list)
        and len(value) == 2
        and type(value[0]) is int
        and 0 < value[0] <= MAX_ID
        and isinstance(value[1], str)
        and len(value[1]) <= MAX_NAME_CHARS
        and len(slot) <= 2 * MAX_NAME_CHARS
    ):
        return value[0], value[1]
    raise ValueError(f"grants: {slot:.60}: expected [number, robot]")
