"""What people have done to a running server, in one small file: a server that is killed goes on from there.

One owner: the server of a port, which alone writes its file. The file is replaced as a whole, so whoever reads it finds
one moment, and there is none while nothing has been done. A server that ends in order removes it: its next start begins
with its command line. Nothing is written to the disk itself before a step goes on: after a power cut the file may be of
an earlier step, and no worker of that time runs any more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from rosa_server.serving.base import log

VERSION = 1
MAX_FILE_BYTES = 16 << 20
MAX_TRIES = 3  # servers that began with a file and did not get as far as its end: then it is not used
MAX_NAMES = 10_000  # of each kind
MAX_CHARS = 1000  # of a name, a path or words


@dataclass
class UnfinishedOrder:
    """An order that is being carried out. `done`: names of workers, or `MOVED`."""

    what: str
    target: str
    value: str
    by: str
    done: list[str] = field(default_factory=list)


MOVED = "moved"  # streams have moved: the new schedule is what a restart begins with


class LiveState:
    """What holds now. Whoever changes it calls `save`."""

    def __init__(self, path: Path | None = None, origin: str = "") -> None:
        """`path`: none: nothing outlives the server. `origin`: of which files of the command line it is the state."""
        self._path, self._origin = path, origin
        self._failed = False
        self.clear()

    def clear(self) -> None:
        """All as the command line says."""
        self.tries = 0
        self.schedule: dict[str, Any] | None = (
            None  # as `rosa plan --json` prints it; none: the command line's
        )
        self.schedule_file = ""
        self.weights: dict[str, str] = {}  # name of a worker -> path
        self.drained: set[str] = set()  # names of workers
        self.removed: dict[str, str] = {}  # robot -> the words that it is refused with
        self.slots: list[str] = []  # tasks, one entry for each slot that was added
        self.unfinished: list[UnfinishedOrder] = []

    @property
    def empty(self) -> bool:
        """Whether all is as the command line says."""
        kept = (self.schedule, self.weights, self.drained, self.removed, self.slots, self.unfinished)
        return not any(kept)

    # -- orders ----------------------------------------------------------------------------------------------------

    def begin(self, one: UnfinishedOrder) -> None:
        self.unfinished = [other for other in self.unfinished if other.target != one.target]
        self.unfinished.append(one)
        self.save()

    def of(self, target: str) -> UnfinishedOrder | None:
        return next((one for one in self.unfinished if one.target == target), None)

    def end(self, target: str) -> None:
        """It has ended, or is not to be gone on with."""
        self.unfinished = [one for one in self.unfinished if one.target != target]
        self.settled()

    def settled(self) -> None:
        """Every stream is served. With nothing at work the file has done its part."""
        if not self.unfinished:
            self.tries = 0
        self.save()

    # -- the file --------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Raises nothing: a full disk is logged once, and the server goes on."""
        if self._path is None:
            return
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            if self.empty:
                self._path.unlink(missing_ok=True)
                return
            text = json.dumps(self._to_data()).encode()
            if len(text) > MAX_FILE_BYTES:
                raise ValueError(f"{len(text)} bytes, the limit is {MAX_FILE_BYTES}")
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(text)
            beside.replace(self._path)
            self._failed = False
        except (OSError, ValueError) as error:
            with suppress(OSError):
                beside.unlink()
            if not self._failed:
                log.warning("live_state_not_saved", path=str(self._path), reason=str(error))
            self._failed = True

    def discard(self) -> None:
        """The server ends in order."""
        self.clear()
        self.save()

    def _to_data(self) -> dict[str, Any]:
        return {
            "v": VERSION,
            "origin": self._origin,
            "tries": self.tries,
            "schedule": self.schedule,
            "schedule_file": self.schedule_file,
            "weights": self.weights,
            "drained": sorted(self.drained),
            "removed": self.removed,
            "slots": self.slots,
            "unfinished": [asdict(one) for one in self.unfinished],
        }

    def load(self) -> None:
        """Take over what an earlier server has left. What cannot be used is not, and one line says why. The file is as
        it was until `save`: the server of this port may still run."""
        if self._path is None or not self._path.exists():
            return
        try:
            self._read(self._path)
        except (OSError, ValueError, RecursionError) as error:
            self.clear()
            log.warning("live_state_not_used", path=str(self._path), reason=str(error))
            return
        self.tries += 1

    def _read(self, path: Path) -> None:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.getuid() or found.st_mode & 0o022:
                raise ValueError("others can write it, or it is somebody else's")
            raw = file.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise ValueError(f"larger than {MAX_FILE_BYTES} bytes")
        data = json.loads(raw)
        if not isinstance(data, dict) or data.get("v") != VERSION:
            raise ValueError(f"expected a map of version {VERSION}")
        if data.keys() != self._to_data().keys():
            raise ValueError(f"expected the keys {', '.join(self._to_data())}")
        if data["origin"] != self._origin:
            raise ValueError("the factory file or the schedule of the command line has changed since")
        if not isinstance(data["tries"], int) or not 0 <= data["tries"] < MAX_TRIES:
            words = "did not get ready, or ended before what was at work did"
            raise ValueError(f"{MAX_TRIES} servers that began with it {words}")
        schedule = data["schedule"]
        if schedule is not None and not isinstance(schedule, dict):
            raise ValueError("schedule: expected a map")
        self.tries, self.schedule = data["tries"], schedule
        self.schedule_file = _text(data["schedule_file"], "schedule_file")
        self.weights = _texts(data["weights"], "weights")
        self.drained = set(_names(data["drained"], "drained"))
        self.removed = _texts(data["removed"], "removed")
        self.slots = _names(data["slots"], "slots")
        if not isinstance(data["unfinished"], list) or len(data["unfinished"]) > MAX_NAMES:
            raise ValueError("unfinished: expected a list")
        self.unfinished = [_unfinished(one) for one in data["unfinished"]]


def origin_of(*files: str) -> str:
    """Of the files of a command line, by what they contain; one that cannot be read has none."""
    sums = []
    for name in files:
        with suppress(OSError):
            sums.append(sha256(Path(name).read_bytes()).hexdigest() if name else "")
    return sha256(" ".join(sums).encode()).hexdigest()


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_CHARS:
        raise ValueError(f"{where}: expected at most {MAX_CHARS} characters")
    return value


def _names(value: Any, where: str) -> list[str]:
    if not isinstance(value, Collection) or isinstance(value, str | Mapping) or len(value) > MAX_NAMES:
        raise ValueError(f"{where}: expected a list of at most {MAX_NAMES} names")
    return [_text(one, where) for one in value]


def _texts(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > MAX_NAMES:
        raise ValueError(f"{where}: expected a map of at most {MAX_NAMES} names")
    return {name: _text(one, where) for name, one in value.items()}


def _unfinished(value: Any) -> UnfinishedOrder:
    if not isinstance(value, dict) or value.keys() != {"what", "target", "value", "by", "done"}:
        raise ValueError("unfinished: expected an order")
    words = {name: _text(value[name], "unfinished") for name in ("what", "target", "value", "by")}
    return UnfinishedOrder(**words, done=_names(value["done"], "unfinished"))
