"""Structured logs: one JSON object per line on standard error, for people with `jq` and for log collectors."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import Any

from rosa_contract.say import say
from rosa_server.serving.core.guard.bucket import Bucket

LINES_PER_S = 20.0  # that peers of one kind can cause
LINES_AT_ONCE = 20.0

LOGGER = logging.getLogger("rosa.server")


def event(name: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log one event with its fields."""
    LOGGER.log(level, name, extra={"fields": fields})


def warning(name: str, **fields: Any) -> None:
    event(name, level=logging.WARNING, **fields)


def error(name: str, **fields: Any) -> None:
    event(name, level=logging.ERROR, **fields)


class LineBudget:
    """How many lines peers of one kind can cause. A flood leaves lines out while it lasts, and none afterwards."""

    def __init__(self) -> None:
        self._bucket = Bucket(LINES_PER_S, LINES_AT_ONCE)

    def due(self, now_s: float) -> bool:
        """Whether there is a line left to log now; it then counts as logged."""
        return self._bucket.take_if_left(1.0, now_s)


@dataclass
class Repeats:
    """Equal log lines of a short time."""

    next_s: float = -inf  # when the next one is said
    unsaid: int = 0


class Seldom:
    """Lets a line through once per `every_s`, so that a peer that tries again and again cannot fill the disk.

    All of them together are at most `LINES_PER_S`, however many different ones a peer makes up.
    """

    MOST = 1000  # different ones that are remembered

    def __init__(self, every_s: float = 10.0) -> None:
        self._every_s = every_s
        self._repeats: dict[Hashable, Repeats] = {}
        self._budget = LineBudget()
        self.unsaid = 0  # how often the line that was due last was left out before

    def due(self, what: Hashable, now_s: float | None = None) -> bool:
        """Whether to log `what` now; it then counts as logged."""
        if now_s is None:
            now_s = time.monotonic()
        known = self._repeats.get(what, Repeats())
        if now_s < known.next_s or not self._budget.due(now_s):
            known.unsaid += 1
            return False
        if len(self._repeats) >= self.MOST:
            self._repeats.clear()
        self.unsaid = known.unsaid
        self._repeats[what] = Repeats(now_s + self._every_s)
        return True


class JsonLines(logging.Formatter):
    """{"time": ..., "level": ..., "event": ..., fields...}"""

    def format(self, record: logging.LogRecord) -> str:
        stamp = self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}"
        line = {"time": stamp, "level": record.levelname.lower(), "event": record.getMessage()}
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class ToDescriptor(logging.Handler):
    """A line that cannot be written, as on a full disk, is lost and disturbs nobody."""

    def __init__(self, descriptor: int | None = None) -> None:
        """None: standard error, whatever that is at the time."""
        super().__init__()
        self._stream = None if descriptor is None else os.fdopen(descriptor, "w", closefd=False)

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record), self._stream or sys.stderr)


def to_stderr(level: int = logging.INFO, descriptor: int | None = None) -> None:
    """`descriptor`: another one than standard error."""
    handler = ToDescriptor(descriptor)
    handler.setFormatter(JsonLines())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level)
    LOGGER.propagate = False
