"""Hardware and its stand-ins, each imported only when it is named."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


class DriverError(Exception):
    """A driver that cannot be made or used, with what to do about it."""


def load(kind: str, name: str, table: Mapping[str, str]) -> Any:
    """The class that `table` ("module:Class" by name) has for `name`."""
    if name not in table:
        raise DriverError(f"{kind} driver {name!r} is unknown; there are {', '.join(sorted(table))}")
    module, _, attribute = table[name].partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise DriverError(f"{kind} driver {name!r} needs a package that is not installed: {error}") from error
