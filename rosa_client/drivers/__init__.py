"""Drivers of hardware and of its stand-ins, each imported only when it is named."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


class DriverError(Exception):
    """A driver cannot be loaded or used; the text says what to do about it."""


def load(kind: str, name: str, table: Mapping[str, str]) -> Any:
    """The class for `name`: from `table` (name -> "module:Class"), or `name` itself as "module:Class"."""
    if name not in table and ":" not in name:
        known = ", ".join(sorted(table))
        raise DriverError(f"{kind} driver {name!r} is unknown; there are {known}, and module:Class")
    module, _, attribute = table.get(name, name).partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise DriverError(f"{kind} driver {name!r} needs a package that is not installed: {error}") from error
    except (AttributeError, ValueError) as error:
        raise DriverError(f"{kind} driver {name!r}: expected module:Class, got {error}") from error
