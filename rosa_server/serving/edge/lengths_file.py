"""Keeps what the server has learned of tasks' lengths in a file, so that it outlives the server."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from rosa_server.serving.base import log
from rosa_server.serving.core.queueing.lengths import TaskLengths

SAVE_EVERY_S = 60.0
MAX_FILE_BYTES = 16 << 20


class LengthsFile:
    """The file is replaced as a whole: whoever reads it finds the state of one moment. Failures are logged once each;
    the server goes on without."""

    def __init__(self, path: str, lengths: TaskLengths) -> None:
        """Learns from the file, if there is one. `path`: empty for none."""
        self._path = Path(path) if path else None
        self._lengths = lengths
        self._save_s = -1e9
        self._failed = False
        if self._path is not None and self._path.exists():
            self._load(self._path)

    def step(self, now_s: float) -> None:
        """Save what is new, now and then."""
        if self._path is not None and now_s >= self._save_s + SAVE_EVERY_S:
            self._save_s = now_s
            self.save()

    def save(self) -> None:
        """Save what is new."""
        if self._path is None or not self._lengths.changed:
            return
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(self._lengths.to_data()))
            beside.replace(self._path)
            self._lengths.changed = self._failed = False
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            if not self._failed:
                log.warning("task_lengths_not_saved", path=str(self._path), reason=str(error))
            self._failed = True

    def _load(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
            if len(data) > MAX_FILE_BYTES:
                raise ValueError(f"larger than {MAX_FILE_BYTES} bytes")
            if not self._lengths.learn_from(json.loads(data)):
                raise ValueError("not what a server writes: a map of kinds to [seconds, rounds]")
        except (OSError, ValueError, RecursionError) as error:
            log.warning("task_lengths_not_read", path=str(path), reason=str(error))
        else:
            log.event("task_lengths_read", path=str(path), tasks=len(self._lengths))
