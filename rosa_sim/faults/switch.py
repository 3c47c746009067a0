"""A fault is switched on and off by a small file: the injector writes it, the faulty process reads it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Switch:
    """The content of the file, read again only when it has changed. No file or an empty object: no fault."""

    def __init__(self, path: str | Path) -> None:
        if not str(path):
            raise ValueError("expected the path of the file that turns faults on and off, got nothing")
        self._path = Path(path)
        self._seen: tuple[int, int] | None = None
        self._state: dict[str, Any] = {}

    def state(self) -> dict[str, Any]:
        """The settings of the fault that is on, such as {"nan": true}."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._seen, self._state = None, {}
            return self._state
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            self._seen, self._state = seen, json.loads(self._path.read_text())
        return self._state


def turn(path: Path, **settings: Any) -> None:
    """Replace the content atomically; without settings, the fault is off."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(settings))
    temporary.replace(path)
