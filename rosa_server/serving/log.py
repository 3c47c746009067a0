"""Structured logs: one JSON object per line on standard error, for people with `jq` and for log collectors."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

LOGGER = logging.getLogger("rosa.server")


def event(name: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log one event with its fields."""
    LOGGER.log(level, name, extra={"fields": fields})


def warning(name: str, **fields: Any) -> None:
    event(name, level=logging.WARNING, **fields)


def error(name: str, **fields: Any) -> None:
    event(name, level=logging.ERROR, **fields)


class JsonLines(logging.Formatter):
    """{"time": ..., "level": ..., "event": ..., fields...}"""

    def format(self, record: logging.LogRecord) -> str:
        stamp = self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}"
        line = {"time": stamp, "level": record.levelname.lower(), "event": record.getMessage()}
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def to_stderr(level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level)
    LOGGER.propagate = False
